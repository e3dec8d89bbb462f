from pathlib import Path

import numpy as np
import pytest

from figure_inputs import small_lineup
from kgprobe import Ranks, load_graph, read_ranks
from kgprobe.compare import line_up
from kgprobe.report.figures.histogram import BINS, draw_rank_histogram, mean_counts, rank_counts


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
