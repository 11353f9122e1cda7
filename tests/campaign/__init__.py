"""The team's own standing attack on smlstm: killed processes, full disks, damaged files, hostile clients, many askers.

    make campaign MINUTES=60
    python -m tests.campaign --minutes 60 --seed 1
    python -m tests.campaign --only kill-index --seed 7 --rounds 1     # one attempt again, as the summary names it

An attack is a function `attack(rng, place) -> Verdict`: it does its worst in a folder of its own, then compares what is
left with what must be there. All are tried in turns until the time is up, the next turn with the next seed. Each runs
in a process of its own that is killed when it takes too long.

What is asked of the product, whatever happens to it: nothing lost, nothing wrong, no traceback, no hang, and only the
exit codes of `docs/search.md`. Photos are drawn; their right answers are known by content (`made.py`), so that the
judgement needs no second indexing of a folder that is being changed.
"""
