import io

from rich.console import Console

from smlstm.cli.photo_progress import PhotoProgress


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_without_a_terminal_there_is_a_line_every_half_minute() -> None:
    clock, out = Clock(), io.StringIO()
    with PhotoProgress("lite0 on torch", 1000, Console(file=out, width=40), clock) as progress:
        for _ in range(50):
            clock.now += 2.0
            progress.advance(10)
    # Three lines in 100 seconds, none broken at the 40 columns of the console.
    assert out.getvalue().splitlines() == [
        "lite0 on torch: 150/1000 photos, 5.0 photos/s, 0:02:50 left",
        "lite0 on torch: 300/1000 photos, 5.0 photos/s, 0:02:20 left",
        "lite0 on torch: 450/1000 photos, 5.0 photos/s, 0:01:50 left",
    ]


def test_in_a_terminal_the_speed_is_that_of_the_whole_run() -> None:
    clock, out = Clock(), io.StringIO()
    with PhotoProgress("lite0", 64, Console(file=out, width=120, force_terminal=True), clock) as progress:
        clock.now += 8.0
        # Two batches at once, as two workers deliver them: the moment between them must not count as a speed.
        progress.advance(16)
        clock.now += 0.001
        progress.advance(16)
        progress.say("a" * 200)
    shown = out.getvalue()
    assert "32/64" in shown
    assert "4.0 photos/s, 0:00:08 left" in shown
    assert "a" * 200 in shown
