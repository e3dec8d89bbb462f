from itertools import combinations

import numpy as np
import pytest

from figure_inputs import small_graph, small_lineup
from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.report.figures import popularity_figures
from kgprobe.report.figures.popularity_figures import (
    Density,
    Popularities,
    draw_crossing_lines,
    draw_popularity_density,
)


def _random(queries: int, seed: int = 0, zeros: bool = True) -> Popularities:
    rng = np.random.default_rng(seed)
    entity, relation = rng.integers(not zeros, 9, queries) / 900, rng.integers(not zeros, 5, queries) / 4
    return Popularities(entity, relation)


def test_the_correlation_is_kendalls_by_counting_pairs() -> None:
    both = _random(60)
    signs = [
        (np.sign(both.entity[i] - both.entity[j]), np.sign(both.relation[i] - both.relation[j]))
        for i, j in combinations(range(60), 2)
    ]
    agreement = sum(a * b for a, b in signs)
    untied = np.sqrt(sum(a != 0 for a, _ in signs) * sum(b != 0 for _, b in signs))
    assert both.correlation == pytest.approx(agreement / untied)


def test_popularities_of_a_graph_are_counted_by_hand() -> None:
    graph = small_graph()
    train, test = graph.triples("train").tolist(), graph.triples("test").tolist()
    found = Popularities.of_graph(graph)
    targets = [(h, r) for h, r, _ in test] + [(t, r) for _, r, t in test]
    for (target, relation), delta_e, delta_r in zip(targets, found.entity, found.relation, strict=True):
        occurrences = [r for h, r, t in train for end in (h, t) if end == target]
        assert delta_e == pytest.approx(len(occurrences) / (2 * len(train)))
        assert delta_r == pytest.approx(occurrences.count(relation) / max(1, len(occurrences)))


def test_a_graph_without_test_triples_shows_its_training_triples() -> None:
    graph = KnowledgeGraph.from_triples(train=[[0, 0, 1], [0, 1, 2]])
    assert Popularities.of_graph(graph).entity.tolist() == [0.5, 0.5, 0.25, 0.25]


def test_queries_without_popularity_are_refused() -> None:
    lineup = small_lineup()
    table = lineup.first.to_arrow().drop_columns(["entity_popularity"])
    with pytest.raises(DataError, match="every query needs a popularity") as error:
        Popularities.of_queries(type(lineup.first)(table))
    assert error.value.problems == [f"{len(lineup):,} of {len(lineup):,} queries have none"]


@pytest.mark.parametrize("zeros", [True, False])
def test_lines_join_the_places_of_both_values(zeros: bool) -> None:
    both = _random(25, zeros=zeros)
    figure = draw_crossing_lines(both)
    below, above = figure.axes
    segments = np.array(below.collections[0].get_segments())
    assert segments.shape == (25, 2, 2)
    for axes, values, end in ((below, both.entity, 0), (above, both.relation, 1)):
        low, high = axes.get_xlim()
        value = np.exp(np.log(low) + segments[:, end, 0] * np.log(high / low))
        np.testing.assert_allclose(value[values > 0], values[values > 0])
        if zeros:
            np.testing.assert_allclose(value[values == 0], values[values > 0].min() / 3)
            assert axes.get_xticklabels()[0].get_text() == "0"
        assert (segments[:, end, 1] == end).all()


def test_many_queries_are_sampled_but_correlated_whole() -> None:
    both = _random(5000)
    figure = draw_crossing_lines(both, lines=40)
    assert len(figure.axes[0].collections[0].get_segments()) == 40
    expected = f"40 of 5,000 queries; Kendall's τ = {both.correlation:.2f}".replace("-", "\N{MINUS SIGN}")
    assert figure.axes[1].get_title() == expected


def test_the_sample_follows_the_seed() -> None:
    both = _random(1000)
    assert both.sample(9, seed=1).entity.tolist() == both.sample(9, seed=1).entity.tolist()
    assert both.sample(9, seed=1).entity.tolist() != both.sample(9, seed=2).entity.tolist()


@pytest.mark.parametrize("zeros", [True, False])
def test_density_counts_every_query_once_in_its_cell(zeros: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(popularity_figures, "_CHUNK", 7)
    both = _random(50, zeros=zeros)
    density = Density.of(both, bins=12)
    counted = np.zeros((12, 12))
    for values in zip(both.entity, both.relation, strict=True):
        cell = []
        for value, edges in zip(values, (density.entity_edges, density.relation_edges), strict=True):
            cell.append(0 if value == 0 else max(i for i, edge in enumerate(edges) if edge <= value))
        counted[tuple(cell)] += 1
    assert density.counts[0].sum() >= counted[0].sum()
    np.testing.assert_array_equal(density.counts[1:, 1:], counted[1:, 1:])
    assert density.counts.sum() == 50


def test_the_drawn_density_is_the_counted_one() -> None:
    both = _random(400)
    mesh = draw_popularity_density(both, bins=20).axes[0].collections[0]
    np.testing.assert_array_equal(np.asarray(mesh.get_array().filled(0)), Density.of(both, 20).counts.T)


def test_density_of_a_million_queries_is_a_small_figure() -> None:
    both = _random(1_000_000)
    axes = draw_popularity_density(both, bins=30).axes[0]
    assert axes.collections[0].get_array().size == 900
    assert axes.collections[0].get_array().sum() == 1_000_000


def test_all_zero_popularity_cannot_be_drawn() -> None:
    with pytest.raises(DataError, match="positive popularity"):
        draw_crossing_lines(Popularities(np.zeros(3), np.ones(3)))


def test_a_single_query_can_be_drawn() -> None:
    one = Popularities(np.array([0.5]), np.array([0.5]))
    assert draw_crossing_lines(one).axes[1].get_title() == "1 query"
    assert draw_popularity_density(one).axes[0].get_title() == "1 query"
