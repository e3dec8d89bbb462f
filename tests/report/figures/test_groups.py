import numpy as np
import pytest
from matplotlib.collections import LineCollection

from figure_inputs import small_lineup
from kgprobe import scores
from kgprobe.compare.comparison import compare_models
from kgprobe.report.figures.groups import GroupScores, Limits, compared_groups, draw_popularity_groups


@pytest.fixture(scope="module")
def found() -> GroupScores:
    return compared_groups(
        compare_models(small_lineup(), ["MRR", "Hits@10"], by=["popularity:3"], replicates=100, permutations=1)
    )


def test_values_are_those_of_eval_in_the_same_groups(found: GroupScores) -> None:
    for model, runs in small_lineup().runs.items():
        wanted = [[score.value for score in scores(run, "MRR", by=["popularity:3"])] for run in runs]
        np.testing.assert_allclose(found.values[model], np.mean(wanted, axis=0), rtol=1e-12)
    assert found.metric == "MRR"
    assert sum(found.queries) == len(small_lineup())


def test_points_and_intervals_are_drawn_where_they_are(found: GroupScores) -> None:
    (axes,) = draw_popularity_groups(found).axes
    drawn = {line.get_label(): line.get_ydata().tolist() for line in axes.lines}
    assert drawn == {model: values.tolist() for model, values in found.values.items()}
    spans = sorted(tuple(segment[:, 1]) for part in axes.collections for segment in part.get_segments() if len(segment))
    assert spans == sorted(
        (low, high)
        for limits in found.limits.values()
        for low, high in zip(limits.low.tolist(), limits.high.tolist(), strict=True)
    )


def test_models_stand_beside_each_other(found: GroupScores) -> None:
    (axes,) = draw_popularity_groups(found).axes
    places = np.array([line.get_xdata() for line in axes.lines])
    assert len(np.unique(places)) == places.size
    np.testing.assert_array_equal(np.rint(places), np.tile(np.arange(3), (3, 1)))


def test_an_interval_that_cannot_be_trusted_is_dotted() -> None:
    limits = Limits(np.array([0.1, 0.5]), np.array([0.3, 0.7]), np.array([True, False]))
    values = {"mine": np.array([0.2, 0.6])}
    (axes,) = draw_popularity_groups(GroupScores("MRR", ("rare", "popular"), (9, 9), values, {"mine": limits})).axes
    lines = {
        tuple(part.get_segments()[0][:, 1]): not part.get_linestyle()[0][1]
        for part in axes.collections
        if isinstance(part, LineCollection)
    }
    assert lines == {(0.1, 0.3): True, (0.5, 0.7): False}


def test_groups_are_named_by_their_limits(found: GroupScores) -> None:
    (axes,) = draw_popularity_groups(found).axes
    names = [label.get_text() for label in axes.get_xticklabels()]
    assert names == [f"{group}\n{count}" for group, count in zip(found.groups, found.queries, strict=True)]
    assert axes.get_ylabel() == "MRR"
