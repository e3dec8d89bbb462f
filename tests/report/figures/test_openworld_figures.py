import re
from pathlib import Path

import numpy as np
import pytest

from benches import SMALL, made_pairs, made_points
from figure_inputs import HOSTILE
from kgprobe.errors import UsageError
from kgprobe.openworld.bench_points import Points
from kgprobe.openworld.consistency import ranking
from kgprobe.report.figures.openworld_figures import draw_rank_connections, draw_worlds
from kgprobe.report.figures.style import save


@pytest.fixture(scope="module")
def points() -> Points:
    return Points.of(made_pairs(5, 4, queries=20), SMALL[:4])


def test_a_line_joins_the_checkpoints_of_a_model_by_closed_value(points: Points) -> None:
    every = draw_worlds(points).axes
    assert len(every) == 4
    for number, axes in enumerate(every):
        *lines, diagonal = axes.lines
        for code, line in enumerate(lines):
            own = sorted(
                (points.closed[number, i], points.open[number, i]) for i in np.flatnonzero(points.model == code)
            )
            assert line.get_xydata().tolist() == [list(pair) for pair in own]
        assert diagonal.get_xdata().tolist() == diagonal.get_ydata().tolist()
        for values, (low, high) in ((points.closed, axes.get_xlim()), (points.open, axes.get_ylim())):
            room = 0.04 * np.ptp(values[number])
            assert (low, high) == pytest.approx((values[number].min() - room, values[number].max() + room))
            assert diagonal.get_xdata()[0] <= low < high <= diagonal.get_xdata()[1]


def test_crossing_lines_are_inverted_models(points: Points) -> None:
    total = 0
    for number, axes in enumerate(draw_rank_connections(points).axes):
        places = [line.get_xdata().tolist() for line in axes.lines]
        assert [line.get_ydata().tolist() for line in axes.lines] == [[1, 0]] * 5
        assert [sorted(row) for row in zip(*places, strict=True)] == [[0, 1, 2, 3, 4]] * 2
        crossings = sum((a[0] - b[0]) * (a[1] - b[1]) < 0 for i, a in enumerate(places) for b in places[:i])
        found = re.search(r"(\d+) of 10 inverted", axes.get_title())
        assert found
        assert int(found[1]) == crossings == ranking(points, number).inverted
        total += crossings
    assert total > 0


def test_the_best_model_is_first() -> None:
    points = made_points([0.9, 0.1, 0.5], [0.5, 0.2, 0.9], [0, 1, 2])
    (axes,) = draw_rank_connections(points).axes
    assert [line.get_xdata().tolist() for line in axes.lines] == [[0, 1], [2, 2], [1, 0]]


def test_a_metric_where_lower_is_better_says_so_and_has_its_best_first() -> None:
    points = made_points([1.0, 5.0], [1.0, 4.0], [0, 1], metric="MR")
    (axes,) = draw_rank_connections(points).axes
    assert [line.get_xdata().tolist() for line in axes.lines] == [[0, 0], [1, 1]]
    assert axes.get_title().startswith("MR ↓")
    assert draw_worlds(points).axes[0].get_title() == "MR ↓"


def test_the_same_points_give_the_same_file_whatever_the_names(tmp_path: Path) -> None:
    points = Points.of(dict(zip(HOSTILE, made_pairs(5, 2, queries=8).values(), strict=True)), SMALL[:2])
    for draw in (draw_worlds, draw_rank_connections):
        for name in ("one", "other"):
            save(draw(points), tmp_path / f"{name}.svg")
        one, other = ((tmp_path / f"{name}.svg").read_bytes() for name in ("one", "other"))
        assert one == other


def test_models_without_any_difference_are_drawn() -> None:
    assert len(draw_worlds(made_points([0.5, 0.5], [0.5, 0.5], [0, 1])).axes[0].lines) == 3


def test_too_many_metrics_are_refused() -> None:
    metrics = [f"Hits@{k}" for k in range(1, 27)]
    with pytest.raises(UsageError, match="26 metrics are too many"):
        draw_worlds(Points.of(made_pairs(2, 1, queries=5), metrics))
