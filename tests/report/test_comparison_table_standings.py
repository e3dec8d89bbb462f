import math
from dataclasses import replace
from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from kgprobe.report.comparison_table import comparison_grid, letters, places, standings
from reporting import comparison

_VALUES = st.dictionaries(
    st.sampled_from("abcdefg"), st.sampled_from([0.1, 0.2, 0.3, 0.4, math.nan]) | st.floats(0, 1), min_size=1
)


@given(_VALUES, st.booleans())
def test_a_place_is_one_more_than_the_number_of_better_models(values: dict[str, float], higher: bool) -> None:
    known = {model: value for model, value in values.items() if not math.isnan(value)}
    found = places(values, higher)
    if len(known) < 2:
        assert found == {}
        return
    expected = {
        model: 1 + sum(other > value if higher else other < value for other in known.values())
        for model, value in known.items()
    }
    assert found == expected


def test_rounding_does_not_break_a_tie() -> None:
    assert places({"a": 0.1 + 0.2, "b": 0.3, "c": 0.5}, higher_is_better=False) == {"a": 1, "b": 1, "c": 3}


_PAIRS = [tuple(sorted(pair)) for pair in permutations("abcd", 2) if pair[0] < pair[1]]


@given(
    st.fixed_dictionaries({model: st.sampled_from([0.1, 0.2, 0.3]) for model in "abcd"}),
    st.fixed_dictionaries({pair: st.sampled_from([0.001, 0.05, 0.0501, 0.09, 1.0]) for pair in _PAIRS}),
    st.sampled_from(["MRR", "MR"]),
)
def test_marks_are_those_of_the_comparison(
    values: dict[str, float], p: dict[tuple[str, str], float], metric: str
) -> None:
    compared = comparison({metric: values}, {(metric, *pair): found for pair, found in p.items()})
    ((_, found),) = standings(compared).items()
    worth = {model: value if metric == "MRR" else -value for model, value in values.items()}
    best = max(worth.values())
    for model in "abcd":

        def noise(other: str, model: str = model) -> bool:
            return p[tuple(sorted((model, other)))] > 0.05

        rivals = [other for other in "abcd" if other != model]
        firsts = [other for other in rivals if worth[other] == best]
        assert found[model].within_noise == (worth[model] < best and any(map(noise, firsts)))
        assert set(found[model].beats) == {
            other for other in rivals if not noise(other) and worth[model] > worth[other]
        }


def test_a_significant_difference_of_nothing_beats_nobody() -> None:
    compared = comparison({"MR": {"a": 1.0, "b": 1.0}}, {("MR", "a", "b"): 0.001})
    ((_, found),) = standings(compared).items()
    assert [standing.beats for standing in found.values()] == [(), ()]


def test_groups_have_standings_of_their_own() -> None:
    compared = comparison({"MRR": {"a": 0.1, "b": 0.2}}, groups=[{"side": "head"}, {"side": "tail"}])
    found = standings(compared)
    assert list(found) == [("MRR", (("side", "head"),)), ("MRR", (("side", "tail"),))]


def test_tests_that_could_not_be_made_settle_nothing() -> None:
    compared = comparison({"MRR": {"a": 0.1, "b": 0.2}}, {("MRR", "a", "b"): math.nan})
    ((_, found),) = standings(compared).items()
    assert found["a"].within_noise
    assert found["b"].beats == ()


def test_models_that_are_not_tested_against_the_best_are_marked_apart() -> None:
    made = comparison({"MRR": {"odd": 0.9, "good": 0.5, "bad": 0.1}}, {("MRR", "good", "bad"): 0.001})
    differences = [
        replace(one, p=math.nan, significant=False, tested=False) if one.first == "odd" else one
        for one in made.differences
    ]
    found = replace(made, differences=differences)
    placings = standings(found)["MRR", ()]
    assert {model: (own.place, own.untested, own.within_noise) for model, own in placings.items()} == {
        "odd": (1, False, False),
        "good": (2, True, False),
        "bad": (3, True, False),
    }
    assert placings["good"].beats == ("bad",)
    grid = comparison_grid(found, flagged=("odd",))
    assert [line.cells[0].text for line in grid.lines] == ["odd *", "good", "bad"]
    assert [line.cells[1].marks for line in grid.lines] == ["", "§", "§"]
    assert "§ not tested against the best, because their candidate sets differ." in grid.notes


def test_letters_are_different_for_any_number_of_models() -> None:
    found = letters(map(str, range(1000)))
    assert len(set(found.values())) == 1000
    assert [found[str(i)] for i in (0, 25, 26, 51, 52, 701, 702)] == ["a", "z", "aa", "az", "ba", "zz", "aaa"]
