import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from smlstm.web.read_ahead import MOST_TOGETHER, ReadAhead


class Reader:
    """Notes what is read together; reads only when it is let."""

    def __init__(self):
        self.free, self.batches = threading.Event(), []
        self.free.set()

    def __call__(self, sentences):
        self.batches.append(list(sentences))
        assert self.free.wait(60)


def test_what_waits_is_read_with_the_first_and_not_again():
    reader = Reader()
    ahead = ReadAhead(reader)
    with ahead.announced(["a", "b"]), ahead.announced(["c"]), ahead.announced(["b", "d"]):
        ahead.read(["a", "b"])
        ahead.read(["c"])
        ahead.read(["b", "d"])
    assert reader.batches == [["a", "b", "c", "d"]]


def test_a_lone_question_reads_its_own_only():
    reader = Reader()
    ahead = ReadAhead(reader)
    with ahead.announced(["a"]):
        ahead.read(["a"])
    with ahead.announced(["b"]):
        pass  # it went away before its turn
    with ahead.announced(["c"]):
        ahead.read(["c"])
    assert reader.batches == [["a"], ["c"]]


def test_no_more_than_so_many_are_read_together():
    reader = Reader()
    ahead = ReadAhead(reader)
    names = [f"sentence {number}" for number in range(MOST_TOGETHER + 5)]
    with ahead.announced(names):
        ahead.read(names[-1:])
        ahead.read(names[-2:-1])
    assert [len(batch) for batch in reader.batches] == [MOST_TOGETHER, 5]
    first, second = reader.batches
    assert first[0] == names[-1] and sorted([*first, *second]) == sorted(names)


def test_who_needs_what_is_being_read_waits_for_it():
    reader = Reader()
    ahead = ReadAhead(reader)
    reader.free.clear()
    with ahead.announced(["a"]), ahead.announced(["b"]), ThreadPoolExecutor(2) as pool:
        first = pool.submit(ahead.read, ["a"])
        while not reader.batches:
            pass
        second = pool.submit(ahead.read, ["b"])
        with pytest.raises(TimeoutError):
            second.result(0.2)
        reader.free.set()
        first.result(60)
        second.result(60)
    assert reader.batches == [["a", "b"]]


def test_a_failure_reaches_who_read_and_holds_nobody_up():
    def fail(_):
        raise ValueError("no")

    ahead = ReadAhead(fail)
    with ahead.announced(["a", "b"]):
        with pytest.raises(ValueError, match="no"):
            ahead.read(["a"])
        ahead.read(["b"])
