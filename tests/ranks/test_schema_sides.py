import pandas as pd
import pytest

import kgprobe as kp
from kgprobe.errors import DataError, UsageError
from kgprobe.ranks import Ranks
from kgprobe.ranks.schema import SIDE_NAMES, side_name

QUERY = {"head": [0, 1, 2], "relation": [0, 0, 1], "tail": [3, 3, 4], "rank": [1, 2, 4], "candidates": [9, 9, 9]}


@pytest.mark.parametrize("make", [list, pd.Series, lambda words: pd.Series(words).astype("category")])
def test_sides_by_other_names(make: object) -> None:
    ranks = Ranks.from_columns(**QUERY, side=make(["object", "Subject", "tail"]))  # type: ignore[operator]
    assert ranks.column("side").to_pylist() == ["tail", "head", "tail"]


def test_unknown_sides_are_named() -> None:
    with pytest.raises(DataError, match=r"neither 'head' nor 'tail': 1 row \(row 2\)"):
        Ranks.from_columns(**QUERY, side=["tail", "left", "tail"])
    with pytest.raises(DataError):
        Ranks.from_columns(**QUERY, side=[1, 2, 3])


def test_every_name_of_a_side() -> None:
    assert {side_name(name.upper()) for name in SIDE_NAMES} == {"head", "tail"}
    assert side_name("both") == "both"


def test_groups_by_other_names() -> None:
    ranks = Ranks.from_columns(**QUERY, side=["tail"] * 3)
    for other, name in (("subject", "head"), ("predicate", "relation"), ("object", "tail")):
        groups = {score.group[other]: score.value for score in kp.scores(ranks, ["MR"], by=[other])}
        assert groups == {score.group[name]: score.value for score in kp.scores(ranks, ["MR"], by=[name])}
    own = Ranks.from_columns(**QUERY, side=["tail"] * 3, labels={"object": ["x", "y", "x"]})
    assert {score.group["object"] for score in kp.scores(own, ["MR"], by=["object"])} == {"x", "y"}


def test_ranking_one_side_by_another_name() -> None:
    graph = kp.KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[1, 0, 0]])
    for name, side in (("object", "tail"), ("Subject", "head"), ("tail", "tail")):
        assert kp.rank("random", graph, sides=name).column("side").to_pylist() == [side]
    with pytest.raises(UsageError, match="no side is called 'left'"):
        kp.rank("random", graph, sides="left")
