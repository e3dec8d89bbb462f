"""Selection against a run by run, target by target reading of the scores."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.metrics import parse
from kgprobe.train.keep import written
from kgprobe.train.selection import Best, Selection

TARGETS = ("MRR", "MR")
"""More is better, and less is better."""

_SCORE = st.sampled_from([0.1, 0.2, 0.3, math.nan])
_RUN = st.fixed_dictionaries(dict.fromkeys(TARGETS, _SCORE))
_HISTORY = st.integers(1, 3).flatmap(lambda runs: st.lists(st.lists(_RUN, min_size=runs, max_size=runs), min_size=1))


def _alone(history: list[dict[str, float]], patience: int) -> tuple[dict[str, Best | None], int | None]:
    """What a run alone keeps, and in which validation it ends."""
    best: dict[str, Best | None] = dict.fromkeys(TARGETS)
    waited = 0
    for number, scores in enumerate(history, 1):
        gained = False
        for name in TARGETS:
            score, known = scores[name], best[name]
            better = known is None or (score > known.score if name == "MRR" else score < known.score)
            if better and not math.isnan(score):
                best[name], gained = Best(score, 5 * number), True
        waited = 0 if gained else waited + 1
        if patience and waited == patience:
            return best, number
    return best, None


def _considered(selection: Selection, history: list[list[dict[str, float]]]) -> int | None:
    for number, runs in enumerate(history, 1):
        gained = selection.consider(5 * number, {name: [run[name] for run in runs] for name in TARGETS})
        for name, run in gained:
            assert selection.best[name][run] == Best(runs[run][name], 5 * number)
        if selection.finished:
            return number
    return None


@given(_HISTORY, st.integers(0, 3))
def test_every_run_of_a_stack_keeps_and_ends_as_alone(history: list[list[dict[str, float]]], patience: int) -> None:
    runs = len(history[0])
    selection = Selection([parse(name) for name in TARGETS], runs, patience)
    ended = _considered(selection, history)
    alone = [_alone([row[run] for row in history], patience) for run in range(runs)]
    ends = [end for _, end in alone]
    assert ended == (None if None in ends else max(end for end in ends if end is not None))
    for run, (best, _) in enumerate(alone):
        assert {name: selection.best[name][run] for name in TARGETS} == best


@given(_HISTORY, st.integers(0, 3), st.integers(0, 5))
def test_a_state_goes_on_as_if_nothing_had_happened(
    history: list[list[dict[str, float]]], patience: int, stop: int
) -> None:
    targets, runs = [parse(name) for name in TARGETS], len(history[0])
    undisturbed, first = Selection(targets, runs, patience), Selection(targets, runs, patience)
    for number, row in enumerate(history):
        scores = {name: [run[name] for run in row] for name in TARGETS}
        undisturbed.consider(number, scores)
        first.consider(number, scores)
        if number == stop:
            again = Selection(targets, runs, patience)
            again.load(written(first.state()))
            first = again
    assert first == undisturbed


def test_an_equal_score_is_no_gain() -> None:
    selection = Selection([parse("MRR")], 1, 0)
    assert selection.consider(5, {"MRR": [0.5]}) == [("MRR", 0)]
    assert selection.consider(10, {"MRR": [0.5]}) == []
    assert selection.best["MRR"] == [Best(0.5, 5)]


def test_a_run_waits_for_a_gain_of_any_target() -> None:
    selection = Selection([parse("MRR"), parse("MR")], 2, 2)
    for epoch, (mrr, mr) in enumerate([(0.5, 9.0), (0.4, 8.0), (0.3, 9.0), (0.4, 7.0), (0.1, 9.0)]):
        selection.consider(epoch, {"MRR": [mrr, 0.1], "MR": [mr, 9.0]})
    assert selection.waited == [1, 2]
    assert not selection.finished


@pytest.mark.parametrize("patience", [0, 4])
def test_training_never_ends_early_without_patience(patience: int) -> None:
    selection = Selection([parse("MRR")], 1, patience)
    for epoch in range(5):
        selection.consider(epoch, {"MRR": [0.5]})
    assert selection.finished == (patience > 0)
