import numpy as np
import pytest

import kgprobe as kp
from figure_inputs import HOSTILE, small_graph, small_ranks
from kgprobe.errors import UsageError
from kgprobe.report.figures.score_figures import Mark, draw_marks
from kgprobe.report.figures.style import ALPHA, BETA, MINUS
from support import random_ranks


def titles(figure):
    return [axes.get_title() for axes in figure.axes]


def points(axes):
    """The drawn values with their lines, from above to below."""
    return [(float(line.get_xdata()[0]), int(line.get_ydata()[0])) for line in axes.lines]


def test_values_and_intervals_are_those_of_the_comparison() -> None:
    graph = small_graph()
    tables = {name: small_ranks(graph, seed) for seed, name in enumerate(("one", "other", "third"))}
    report = kp.compare(tables, ["MRR", "MR"], graph=graph, replicates=100, permutations=100)
    figure = report.plot()
    assert titles(figure) == ["MRR", "MR"]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["one", "other", "third"]
    for axes, metric in zip(figure.axes, ("MRR", "MR"), strict=True):
        own = [estimate for estimate in report.comparison.estimates if str(estimate.metric) == metric]
        assert points(axes) == [(estimate.value, i) for i, estimate in enumerate(own)]
        drawn = [bar.get_segments()[0] for bar in axes.collections]
        assert np.allclose(drawn, [[[e.interval.low, i], [e.interval.high, i]] for i, e in enumerate(own)])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["value, 95% interval"]


def test_groups_of_a_comparison_are_lines_of_their_own() -> None:
    graph = small_graph()
    report = kp.compare({"one": small_ranks(graph, 1)}, "MRR", by="side", replicates=100, permutations=100)
    assert [label.get_text() for label in report.plot().axes[0].get_yticklabels()] == ["one, head", "one, tail"]


def test_estimates_stand_beside_the_values_of_the_open_world() -> None:
    graph = small_graph()
    ranks = kp.rank("random", graph)
    found = kp.estimate_closed(ranks, ["MRR", "Hits@10"], missing=0.2, graph=graph, draws=4, curve=False)
    figure = found.plot()
    assert titles(figure) == ["MRR", "Hits@10"]
    for axes, estimate in zip(figure.axes, found.estimates, strict=True):
        assert points(axes) == [(estimate.closed, 0), (estimate.open, 0)]
        assert axes.lines[1].get_markerfacecolor() == "white"


def test_relations_are_named_by_the_graph() -> None:
    graph = kp.KnowledgeGraph.from_triples(
        train=[[0, 0, 1]], num_entities=99, relation_labels=["born in", "knows", "likes", "sees"]
    )
    figure = kp.evaluate(random_ranks(50), "MRR", by="relation", graph=graph).plot()
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["born in", "knows", "likes", "sees"]
    assert titles(kp.scores(random_ranks(50), "PROBE(alpha=-1)").plot()) == [f"PROBE({ALPHA}={MINUS}1,{BETA}=0)"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_and_undefined_values_are_drawn(name: str) -> None:
    figure = draw_marks([Mark(name, name, name, float("nan")), Mark("MRR", "plain", "plain", 0.5, -np.inf, np.inf)])
    assert len(figure.axes) == 2
    assert not figure.axes[1].collections


def test_too_many_panels_or_lines_are_refused() -> None:
    with pytest.raises(UsageError, match="25 metrics are too many"):
        draw_marks([Mark(str(i), "one", "one", 0.5) for i in range(25)])
    with pytest.raises(UsageError, match="61 models and groups are too many"):
        draw_marks([Mark("MRR", str(i), "one", 0.5) for i in range(61)])


def test_panels_beyond_the_metrics_are_removed() -> None:
    assert titles(draw_marks([Mark(f"m{i}", "one", "one", 0.5) for i in range(5)])) == [f"m{i}" for i in range(5)]
