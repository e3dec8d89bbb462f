import json
from typing import Any

import pytest

from kgprobe.predict.adapters.interactions import INTERACTIONS, Header, parse_header
from kgprobe.predict.scorers import Dot, GroupNorm, Similarity


def _parsed(content: Any) -> tuple[Header | None, list[str]]:
    problems: list[str] = []
    return parse_header(content if isinstance(content, str) else json.dumps(content), problems), problems


@pytest.mark.parametrize(
    ("content", "model", "similarity"),
    [
        ({"model": "ComplEx"}, "ComplEx", Dot()),
        ({"model": "TRANSE", "p": 1, "gamma": 12}, "TransE", GroupNorm(1, 12.0)),
        ({"model": "TransE", "p": 2.0}, "TransE", GroupNorm(None, 0.0)),
        ({"model": "rotate", "gamma": -1.5}, "RotatE", GroupNorm(2, -1.5)),
        ({"similarity": "dot"}, None, Dot()),
        ({"similarity": "group_norm", "group_size": 20, "gamma": 5}, None, GroupNorm(20, 5.0)),
        ({"similarity": "group_norm", "group_size": None}, None, GroupNorm(None, 0.0)),
    ],
)
def test_headers(content: dict[str, Any], model: str | None, similarity: Similarity) -> None:
    header, problems = _parsed(content)
    assert problems == []
    assert header is not None
    assert header.interaction is (INTERACTIONS[model] if model else None)
    assert header.similarity == similarity
    assert header.settings == content | ({"model": model} if model else {})
    assert (header.name, header.entities, header.relations) == (None, None, None)


def test_names() -> None:
    header, _ = _parsed({"model": "CP", "name": "mine", "entities": ["ä", ""], "relations": []})
    assert header is not None
    assert (header.name, header.settings) == ("mine", {"model": "CP"})
    assert header.entities.to_pylist() == ["ä", ""]
    assert header.relations.to_pylist() == []


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", ["header: not JSON (Expecting value: line 1 column 1 (char 0)): ''"]),
        ("ComplEx", ["header: not JSON (Expecting value: line 1 column 1 (char 0)): 'ComplEx'"]),
        ('["ComplEx"]', ["header: JSON of type list, expected an object"]),
        ({}, ['header: expected either a "model" or a "similarity"']),
        ({"model": "CP", "similarity": "dot"}, ['header: expected either a "model" or a "similarity"']),
        ({"model": "CompIEx"}, ["header: no model is called 'CompIEx'; nearest: ComplEx"]),
        ({"model": ["CP"]}, ["header: no model is called \"['CP']\"; nearest: CP"]),
        ({"similarity": "cosine"}, ["header: no similarity is called 'cosine'; there are: dot, group_norm"]),
        ({"model": "TransE"}, ["header: 'p' is missing, expected 1 or 2"]),
        ({"model": "TransE", "p": 3}, ["header: 'p' is 3, expected 1 or 2"]),
        ({"model": "TransE", "p": True}, ["header: 'p' is True, expected 1 or 2"]),
        ({"model": "RotatE", "gamma": "9"}, ["header: 'gamma' is '9', expected a finite number"]),
        ('{"model": "RotatE", "gamma": NaN}', ["header: 'gamma' is nan, expected a finite number"]),
        ({"model": "RotatE", "gamma": 10**400}, [f"header: 'gamma' is 1{'0' * 59}, expected a finite number"]),
        (
            {"model": "CP", "gamma": 9},
            ["header: 'gamma' is not expected; there are: entities, model, name, relations, similarity"],
        ),
        ({"model": "CP", "name": 3}, ["header: 'name' is 3, expected a text"]),
        ('{"model": "CP", "name": "\\ud800"}', ["header: 'name' is '\\ud800', expected a text"]),
        (
            {"model": "CP", "entities": ["a", 1]},
            ["header: 'entities' is ['a', 1], expected a list of names in the order of the rows"],
        ),
        (
            {"similarity": "dot", "relations": []},
            ["header: 'relations' is not expected; there are: entities, model, name, similarity"],
        ),
        (
            {"similarity": "group_norm", "group_size": 0},
            ["header: 'group_size' is 0, expected a positive integer, or null for one group of all coordinates"],
        ),
        (
            {"model": "Trans", "gama": 9, "name": 3},
            [
                "header: no model is called 'Trans'; nearest: TransE",
                "header: 'gama' is not expected; nearest: gamma, name",
                "header: 'name' is 3, expected a text",
            ],
        ),
    ],
)
def test_everything_wrong_is_said(content: Any, expected: list[str]) -> None:
    header, problems = _parsed(content)
    assert header is None
    assert problems == expected


def test_no_header_and_one_too_deep() -> None:
    problems: list[str] = []
    assert parse_header(None, problems) is None
    assert problems[0].startswith("there is no header")
    assert _parsed("[" * 200_000)[1][0].startswith("header: not JSON")
