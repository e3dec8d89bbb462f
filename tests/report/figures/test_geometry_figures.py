import numpy as np
import pytest

from figure_inputs import small_lineup
from kgprobe.comparison import line_up
from kgprobe.errors import DataError
from kgprobe.metrics import evaluate
from kgprobe.report.figures.geometry_figures import PAPER_EPS, draw_geometry, paper_example, plane, rare_half
from support import with_columns


@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (0.25, 0.4), (-1.0, 0.8)])
def test_the_inner_product_in_the_plane_is_probe(alpha: float, beta: float) -> None:
    lineup = small_lineup()
    found = plane(lineup, alpha, beta).values
    for model, runs in lineup.runs.items():
        values = [next(iter(evaluate(run, f"PROBE(alpha={alpha},beta={beta})").values())) for run in runs]
        assert found[model] == pytest.approx(np.mean(values), rel=1e-12)


def test_coordinates_are_mean_scores_of_the_halves() -> None:
    lineup = small_lineup()
    found = plane(lineup, 0.0, 0.0)
    rare = rare_half(lineup.first)
    score = [1 - np.log(run.rank) / np.log(run.candidates) for run in lineup.runs["one"]]
    wanted = [np.mean([s[~rare].mean() for s in score]), np.mean([s[rare].mean() for s in score])]
    np.testing.assert_allclose(found.points["one"], wanted)
    np.testing.assert_allclose(found.direction, [(~rare).mean(), rare.mean()])


def test_beta_turns_the_direction_towards_the_rare() -> None:
    shares = [plane(small_lineup(), 1.0, beta).direction for beta in (0.0, 0.4, 0.8)]
    assert all(share.sum() == pytest.approx(1) for share in shares)
    assert shares[0][1] < shares[1][1] < shares[2][1]


def test_the_foot_lies_on_the_direction_at_a_right_angle() -> None:
    found = plane(small_lineup(), 0.5, 0.6)
    for model, point in found.points.items():
        foot = found.foot(model)
        assert foot[0] * found.direction[1] == pytest.approx(foot[1] * found.direction[0])
        assert (point - foot) @ found.direction == pytest.approx(0)


def test_halves_are_split_at_the_median_of_the_triples_popularity() -> None:
    ranks = small_lineup().first
    popularity = ranks.numbers("entity_popularity") * ranks.numbers("relation_popularity")
    assert rare_half(ranks).tolist() == (popularity < sorted(popularity)[len(ranks) // 2]).tolist()


def test_where_half_of_the_queries_are_equally_rare_they_are_the_rare_half() -> None:
    example = paper_example().first
    table = example.to_arrow().set_column(
        example.column_names.index("entity_popularity"), "entity_popularity", [[0.1, 0.1, 0.9]]
    )
    assert rare_half(type(example)(table)).tolist() == [True, True, False]


def test_equally_popular_queries_have_no_geometry() -> None:
    example = paper_example().first
    table = example.to_arrow()
    for name in ("entity_popularity", "relation_popularity"):
        table = table.set_column(table.column_names.index(name), name, [[0.5, 0.5, 0.5]])
    with pytest.raises(DataError, match="equally popular"):
        rare_half(type(example)(table))


def test_every_point_and_foot_is_within_the_panel() -> None:
    planes = [plane(small_lineup(), alpha, 0.8) for alpha in (1.0, -1.0)]
    for axes, shown in zip(draw_geometry(planes).axes, planes, strict=True):
        every = np.stack([*shown.points.values(), *map(shown.foot, shown.points)])
        assert axes.get_xlim() == axes.get_ylim()
        assert every.max() < axes.get_xlim()[1]


def test_the_figure_shows_points_and_lists_scores_from_the_best() -> None:
    found = plane(paper_example(), 0.25, 0.0, PAPER_EPS)
    (axes,) = draw_geometry([found]).axes
    drawn = {
        line.get_label(): (line.get_xdata()[0], line.get_ydata()[0])
        for line in axes.lines
        if not line.get_label().startswith("_")
    }
    assert drawn == {model: tuple(point) for model, point in found.points.items()}
    listed = next(text.get_text() for text in axes.texts if text.get_text().startswith("c"))
    assert [line.split()[1] for line in listed.splitlines()[1:]] == ["B", "C", "A"]


def test_a_half_of_single_candidates_has_no_mean_score():
    first = paper_example().first
    table = with_columns(first, rank=[1.0, 2.0, 1.0], candidates=[300, 300, 1])
    with pytest.raises(DataError, match="half of the queries has no weight"):
        plane(line_up({"one": table}), 1.0, 0.0)
