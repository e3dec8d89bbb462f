from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import LineCollection

from figure_inputs import small_lineup
from kgprobe.comparison import line_up
from kgprobe.comparison.lineup import groups
from kgprobe.comparison.model_comparison import compare_models
from kgprobe.graph import load_graph
from kgprobe.metrics import scores
from kgprobe.ranks import Ranks, read_ranks
from kgprobe.report.figures.rank_figures import (
    BINS,
    GroupScores,
    Limits,
    compared_groups,
    draw_popularity_groups,
    draw_popularity_ranks,
    draw_rank_histogram,
    mean_counts,
    rank_counts,
    rank_shares,
)


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


def _by_hand(rank: float) -> str:
    for bin_ in BINS[:-1]:
        if rank <= int(bin_.split("-")[-1].replace(",", "")):
            return bin_
    return BINS[-1]


def test_counts_are_those_of_a_loop() -> None:
    ranks = small_lineup().first
    names = [_by_hand(rank) for rank in ranks.rank.tolist()]
    assert rank_counts(ranks).tolist() == [names.count(bin_) for bin_ in BINS]


@pytest.mark.parametrize(
    ("rank", "bin_"),
    [
        (1, "1"),
        (1.5, "2"),
        (2, "2"),
        (2.5, "3-10"),
        (10, "3-10"),
        (10.5, "11-100"),
        (1000, "101-1,000"),
        (1001, ">1,000"),
    ],
)
def test_limits_of_the_bins(rank: float, bin_: str) -> None:
    one = Ranks.from_columns(head=[0], relation=[0], tail=[1], side=["tail"], rank=[rank], candidates=[5000])
    assert dict(zip(BINS, rank_counts(one).tolist(), strict=True)) == {name: float(name == bin_) for name in BINS}


def test_bars_are_the_mean_counts_over_seeds_and_their_difference() -> None:
    lineup = small_lineup()
    counts, difference = draw_rank_histogram(lineup, "other", "one").axes
    wanted = {
        model: np.mean([rank_counts(run) for run in lineup.runs[model]], axis=0).tolist() for model in ("other", "one")
    }
    drawn = {bars.get_label(): [bar.get_height() for bar in bars] for bars in counts.containers}
    assert drawn == wanted
    heights = [bar.get_height() for bar in difference.containers[0]]
    assert heights == [a - b for a, b in zip(wanted["other"], wanted["one"], strict=True)]
    assert sum(drawn["one"]) == len(lineup)


def test_the_bar_of_a_difference_has_the_colour_of_the_model_that_has_more() -> None:
    lineup = small_lineup()
    counts, difference = draw_rank_histogram(lineup, "one", "other").axes
    colour = {bars.get_label(): bars[0].get_facecolor() for bars in counts.containers}
    for bar in difference.containers[0]:
        if bar.get_height():
            assert bar.get_facecolor() == colour["one" if bar.get_height() > 0 else "other"]


def test_published_ranks_show_what_the_paper_says(data: Path) -> None:
    folder = data / "published_ranks" / "wn18rr"
    lineup = line_up(
        {model: read_ranks(folder / f"{model}.parquet") for model in ("RNNLogic", "HousE")}, graph=load_graph("wn18rr")
    )
    sharp, even = (dict(zip(BINS, mean_counts(lineup, model), strict=True)) for model in lineup.models)
    assert sharp["1"] > even["1"]
    assert even["3-10"] > 1.5 * sharp["3-10"]
    assert even["11-100"] > 1.5 * sharp["11-100"]
    assert sum(sharp.values()) == len(lineup) == 6268


def test_shares_by_popularity_are_counted_by_hand() -> None:
    lineup = small_lineup()
    found = rank_shares(lineup, "one", "other", groups=4)
    popularity = lineup.first.numbers("entity_popularity") * lineup.first.numbers("relation_popularity")
    members = [rows for _, rows in groups(lineup, "popularity:4")]
    assert sum(found.queries) == len(lineup)
    highest = [popularity[rows].max() for rows in members]
    assert highest == sorted(highest)
    limits = [0, 1, 2, 10, 100, 1000, np.inf]
    for model in ("one", "other"):
        for i, rows in enumerate(members):
            ranks = [run.rank[row] for run in lineup.runs[model] for row in rows]
            shares = [sum(low < rank <= high for rank in ranks) / len(ranks) for low, high in pairwise(limits)]
            np.testing.assert_allclose(found.shares[model][i], shares, rtol=1e-12)
            assert found.means[model][i] == pytest.approx(np.prod(np.array(ranks) ** (1 / len(ranks))))
            assert found.queries[i] == len(rows)


def test_popularity_ranks_are_stacked_shares_with_the_rarest_above() -> None:
    found = rank_shares(small_lineup(), "one", "other", groups=3)
    (axes,) = draw_popularity_ranks(found).axes
    bars = [bar for container in axes.containers for bar in container]
    wanted = [share for i in range(3) for model in ("one", "other") for share in found.shares[model][i]]
    assert [bar.get_width() for bar in bars] == pytest.approx(wanted)
    ends = [bars[6 * i + 5].get_x() + bars[6 * i + 5].get_width() for i in range(6)]
    assert ends == pytest.approx([1.0] * 6)
    heights = [bars[6 * i].get_y() for i in range(6)]
    assert heights == sorted(heights, reverse=True)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["one", "other"] * 3
    texts = [text.get_text() for text in axes.texts]
    assert [text for text in texts if text.startswith("rarest")]
    assert f"{found.means['one'][0]:,.1f}" in texts
    legend = [text.get_text() for text in axes.figure.legends[0].get_texts()]
    assert legend == ["rank 1", "2", "3-10", "11-100", "101-1,000", ">1,000"]
