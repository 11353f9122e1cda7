import io

from rich.console import Console

from smlstm.progress_bar import HALF_A_MINUTE, ProgressBar


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_without_a_terminal_there_is_a_line_every_half_minute() -> None:
    clock, out = Clock(), io.StringIO()
    console = Console(file=out, width=40)
    with ProgressBar("lite0 on torch", 1000, between_lines=HALF_A_MINUTE, console=console, clock=clock) as progress:
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
    console = Console(file=out, width=120, force_terminal=True)
    with ProgressBar("lite0", 64, between_lines=HALF_A_MINUTE, console=console, clock=clock) as progress:
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


def test_what_an_earlier_run_did_counts_for_no_speed() -> None:
    clock, out = Clock(), io.StringIO()
    console = Console(file=out, width=120)
    with ProgressBar("stage", 5000, "steps", between_lines=60, console=console, clock=clock) as progress:
        clock.now += 100
        progress.update(3000, resumed=1000)
        clock.now += 100
        progress.update(4000, resumed=2000, news="loss 1.5, 300 pairs/s")
    assert out.getvalue().splitlines() == [
        "stage: 3000/5000 steps, 20.0 steps/s, 0:01:40 left",
        "stage: 4000/5000 steps, loss 1.5, 300 pairs/s, 0:01:40 left",
    ]


def test_a_short_work_leaves_nothing_in_a_pipe() -> None:
    clock, out = Clock(), io.StringIO()
    with ProgressBar("scoring", unit="pairs", console=Console(file=out), clock=clock) as progress:
        clock.now += 1000
        progress.update(10, 20)
    assert out.getvalue() == ""


def test_names_in_brackets_are_no_markup() -> None:
    out = io.StringIO()
    console = Console(file=out, width=120, force_terminal=True)
    with ProgressBar("run [red]", 2, console=console) as progress:
        progress.update(1)
    assert "run [red]" in out.getvalue()
