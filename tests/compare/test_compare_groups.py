import numpy as np
import pytest

from clustered import lineup
from kgprobe import UsageError, scores
from kgprobe.compare.groups import grouped, whole

BY = [["relation"], ["side", "kind"], ["entity_popularity:3"], ["popularity:11"]]


@pytest.mark.parametrize("by", [[], *BY], ids=" ".join)
def test_groups_are_those_of_eval_in_the_same_order(by):
    given = lineup(60, 1)
    found = grouped(given, by, given.clusters()).groups
    expected = scores(given.first, ["MRR"], by=by)
    assert [group.name for group in found] == [score.group for score in expected]
    assert [len(group.queries) for group in found] == [score.queries for score in expected]
    assert sorted(np.concatenate([group.queries for group in found])) == list(range(120))


@pytest.mark.parametrize("by", [[], *BY], ids=" ".join)
def test_cells_are_the_clusters_of_a_group(by):
    given = lineup(60, 1)
    clusters = given.clusters()
    found = grouped(given, by, clusters)
    ends = [(group.cells.start, group.cells.stop) for group in found.groups]
    assert [end for _, end in ends] == [*(start for start, _ in ends[1:]), found.clusters.count]
    for group in found.groups:
        cells, own = found.clusters.codes[group.queries], clusters.codes[group.queries]
        assert set(cells) == set(range(group.cells.start, group.cells.stop))
        _, in_order = np.unique(own, return_inverse=True)
        assert (cells - group.cells.start == in_order).all()


def test_no_group_is_the_whole():
    given = lineup(10, 1)
    clusters = given.clusters()
    found = whole(clusters)
    assert found.clusters is clusters
    assert found.groups[0].name == {}


@pytest.mark.parametrize("by", ["rank:3", "seed"])
def test_what_belongs_to_a_model_is_no_group_of_queries(by):
    given = lineup(5, 1, runs=2)
    with pytest.raises(UsageError, match="do not share groups"):
        grouped(given, [by], given.clusters())
