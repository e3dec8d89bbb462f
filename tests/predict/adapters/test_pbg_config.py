"""A configuration that cannot be used is refused with everything that is wrong."""

import json
from typing import Any

import pytest

from kgprobe.predict.adapters.pbg_config import differences, parse_config
from pbg_models import configuration, trained, trained_names

RELATION = {"name": "all", "lhs": "all", "rhs": "all"}


@pytest.mark.parametrize("name", trained_names())
def test_configurations_of_the_library(name: str) -> None:
    text = (trained() / name / "model/config.json").read_text()
    config = parse_config("config.json", text, problems := [])
    assert problems == []
    assert config is not None
    raw = json.loads(text)
    assert config.dynamic == raw["dynamic_relations"]
    assert config.partitions == {kind: about["num_partitions"] for kind, about in raw["entities"].items()}
    assert [relation.operator for relation in config.relations] == [one["operator"] for one in raw["relations"]]


def test_defaults_are_those_of_the_library() -> None:
    raw = {"entities": {"all": {"num_partitions": 1}}, "relations": [RELATION], "dimension": 4, "comparator": "cos"}
    config = parse_config("config.json", json.dumps(raw), problems := [])
    assert config is not None, problems
    found = config.bias, config.global_emb, config.max_norm, config.dynamic, config.relations[0].operator
    assert found == (False, True, None, False, "none")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"comparator": "l1"}, ["no comparator is called 'l1'; nearest: l2"]),
        ({"dimension": 3.5, "bias": "yes"}, [
            "'dimension' is 3.5, expected a positive integer",
            "'bias' is 'yes', expected true or false",
        ]),
        ({"max_norm": 0}, ["'max_norm' is 0, expected a positive number or null"]),
        ({"entities": {}}, ["'entities' is {}, expected entity types"]),
        ({"entities": {"all": {"num_partitions": 0}}}, [
            "entity type 'all': 'num_partitions' is 0, expected 1 to 65,536"
        ]),
        ({"entities": {"all": 3}}, ["entity type 'all' is 3, expected an object"]),
        ({"entities": {"all": {"num_partitions": 1, "featurized": True}}}, [
            "entity type 'all': featurized types are not supported: an entity is the mean of its features, which are "
            "listed with the edges alone"
        ]),
        ({"entities": {"all": {"num_partitions": 1, "dimension": 8}}}, [
            "entity type 'all': dimension 8, but all embeddings have 4"
        ]),
        ({"entities": {"all": {"num_partitions": 1}, "../x": {"num_partitions": 1}}}, [
            "'../x' is no name of an entity type"
        ]),
        ({"relations": [RELATION | {"operator": "rotate", "rhs": "al"}]}, [
            "relation 0: no entity type is called 'al'; nearest: all",
            "relation 0: no operator is called 'rotate'; there are: none, diagonal, translation, linear, affine, "
            "complex_diagonal",
        ]),
        ({"relations": [RELATION, RELATION]}, [
            "dynamic relations with 2 entries in 'relations', expected one for all"
        ]),
        ({"global_emb": True}, [
            "dynamic relations with global embeddings ('global_emb', true by default), which do not go together"
        ]),
        ({"relations": [RELATION | {"operator": "complex_diagonal"}], "dimension": 5}, [
            "complex_diagonal needs an even dimension, found 5"
        ]),
        ({"bias": True, "dimension": 1}, ["a bias takes the only coordinate"]),
    ],
)  # fmt: skip
def test_entries_that_cannot_be_used(changes: dict[str, Any], expected: list[str]) -> None:
    text = json.dumps(configuration("dot") | changes)
    assert parse_config("config.json", text, problems := []) is None
    assert problems == [f"config.json: {problem}" for problem in expected]


def test_what_must_be_there_is_named() -> None:
    assert parse_config("config.json", '{"bias": true}', problems := []) is None
    assert problems == [
        "config.json: 'dimension' is missing, expected a positive integer",
        "config.json: 'entities' is missing, expected entity types",
        "config.json: 'relations' is missing, expected relations",
        "config.json: 'comparator' is missing, expected a text",
    ]


def test_what_two_configurations_say_differently() -> None:
    one, other = (
        parse_config("config.json", json.dumps(configuration(comparator, margin=margin)), [])
        for comparator, margin in (("dot", 1), ("cos", 2))
    )
    assert one is not None
    assert other is not None
    assert differences(one, other) == ["comparator"]
    assert differences(one, one) == []
