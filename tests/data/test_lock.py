"""One writer at a time, whether it is another process or another thread of this one."""

import threading
import time

from smlstm.data import lock as room
from smlstm.data.lock import Locked, WriterLock


def test_of_many_threads_one_gets_the_lock(tmp_path, monkeypatch):
    def slowly(file):
        time.sleep(0.05)  # as long as it takes another thread to ask
        real(file)

    def ask():
        try:
            taken.append(WriterLock(tmp_path / "lock"))
        except Locked as error:
            refused.append(str(error))

    real, taken, refused = room._lock, [], []
    monkeypatch.setattr(room, "_lock", slowly)
    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(taken), len(refused)) == (1, 7)
    assert all("is being written by this process" in text for text in refused)
    taken[0].release()
    WriterLock(tmp_path / "lock").release()
