import os
import threading

import pytest

from smlstm.vision.sources import source_of


def test_a_pipe_in_the_place_of_a_photo_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.jpg")
    found = []

    def look() -> None:
        with pytest.raises(OSError, match="not a regular file"):
            source_of(tmp_path / "pipe.jpg")
        found.append("refused")

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(60)
    assert found == ["refused"]
