import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.predict.sources.top_k.line import LineError, parse_line

QUERY = {"head": "a", "relation": "r"}


def parsed(**fields: Any) -> Any:
    return parse_line(json.dumps(fields))


@pytest.mark.parametrize(
    ("fields", "query"),
    [
        ({"head": "a", "relation": "r"}, ("tail", "a", "r", None)),
        ({"head": "a", "relation": "r", "tail": None}, ("tail", "a", "r", None)),
        ({"tail": "b", "relation": "r"}, ("head", "b", "r", None)),
        ({"head": None, "tail": 7, "relation": 0}, ("head", 7, 0, None)),
        ({"head": "a", "relation": "r", "tail": "b", "side": "tail"}, ("tail", "a", "r", "b")),
        ({"head": "a", "relation": "r", "tail": "b", "side": "Head"}, ("head", "b", "r", "a")),
        ({"head": "a", "relation": "r", "side": "tail"}, ("tail", "a", "r", None)),
        ({"gold_head": "a", "gold_predicate": "r", "gold_tail": "b", "predict": "tail"}, ("tail", "a", "r", "b")),
        ({"gold_head": "a", "gold_relation": "r", "id": 5, "true_rank": 1}, ("tail", "a", "r", None)),
    ],
)
def test_the_query_is_what_is_not_given_or_what_is_named(fields: dict[str, Any], query: tuple[Any, ...]) -> None:
    line = parsed(**fields, predictions=["c"])
    assert (line.side, line.given, line.relation, line.target) == query


@pytest.mark.parametrize(
    ("predictions", "names", "levels"),
    [
        ([], [], []),
        (["b", "c"], ["b", "c"], [0, 1]),
        ([3, "c"], [3, "c"], [0, 1]),
        ([["b", 0.5], ["c", 0.5], ["d", -1]], ["b", "c", "d"], [0, 0, 1]),
        ([{"entity": "b", "score": 2}, {"entity": 4, "score": 1}], ["b", 4], [0, 1]),
        ([{"entity": "b"}, {"entity": "c"}], ["b", "c"], [0, 1]),
        ([["b", 1], {"entity": "c", "score": 1.0}], ["b", "c"], [0, 0]),
    ],
)
def test_predictions_come_in_three_forms(predictions: list[Any], names: list[Any], levels: list[int]) -> None:
    line = parsed(**QUERY, predictions=predictions)
    assert (list(line.predictions), line.levels.tolist()) == (names, levels)


def test_infinite_scores_are_values() -> None:
    line = parsed(**QUERY, predictions=[["a", math.inf], ["b", math.inf], ["c", 0], ["d", -math.inf], ["e", -math.inf]])
    assert line.levels.tolist() == [0, 0, 1, 2, 2]


@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_levels_tie_where_scores_do(scores: list[float]) -> None:
    ordered = sorted(scores, reverse=True)
    levels = parsed(**QUERY, predictions=[[i, score] for i, score in enumerate(ordered)]).levels.tolist()
    distinct = sorted(set(ordered), reverse=True)
    assert levels == [distinct.index(score) for score in ordered]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "neither head nor tail is given"),
        ({"head": "a", "tail": "b", "relation": "r"}, "head and tail are given, but not the side"),
        ({"head": "a"}, "no relation"),
        ({"relation": "r", "side": "tail", "tail": "b"}, "no head"),
        ({**QUERY, "side": "left"}, "the side is neither 'head' nor 'tail', but 'left'"),
        ({**QUERY, "side": 1}, "the side is neither 'head' nor 'tail', but 1"),
        ({**QUERY, "gold_head": "a"}, "head and gold_head are the same field"),
        ({"head": ["a"], "relation": "r"}, "the head is neither a name nor an id, but ['a']"),
        ({"head": True, "relation": "r"}, "the head is neither a name nor an id, but True"),
        ({"head": "a", "relation": 1.5}, "the relation is neither a name nor an id, but 1.5"),
        ({**QUERY, "predictions": None}, "no list of predictions"),
        ({**QUERY, "predictions": "b"}, "the predictions are not a list"),
        ({**QUERY, "predictions": ["b", None]}, "prediction 2 is no name, id, [name, score] or {entity, score}"),
        ({**QUERY, "predictions": ["b", True]}, "prediction 2 is no name, id, [name, score] or {entity, score}"),
        ({**QUERY, "predictions": [["b", 1, 2]]}, "prediction 1 is no name, id, [name, score] or {entity, score}"),
        ({**QUERY, "predictions": [{"name": "b"}]}, "prediction 1 is no name, id, [name, score] or {entity, score}"),
        ({**QUERY, "predictions": [["b", 1], "c"]}, "prediction 2 has no score, though others do"),
        ({**QUERY, "predictions": [["b", 1], ["c", "0"]]}, "the score of prediction 2 is no number, but '0'"),
        ({**QUERY, "predictions": [["b", True]]}, "the score of prediction 1 is no number, but True"),
        ({**QUERY, "predictions": [["b", 1], ["c", math.nan]]}, "the score of prediction 2 is NaN"),
        ({**QUERY, "predictions": [["b", 10**400]]}, "a score is too large for a number of 64 bits"),
        (
            {**QUERY, "predictions": [["b", 1], ["c", 0.5], ["d", 0.75]]},
            "the best must come first, but the score rises from 0.5 to 0.75 at prediction 3",
        ),
    ],
)
def test_what_is_wrong_is_said(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(LineError) as caught:
        parsed(**({"predictions": ["c"]} | fields))
    assert str(caught.value) == problem


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not JSON (Expecting property name enclosed in double quotes, column 2)"),
        ('["a"]', "not a JSON object"),
        ("7" * 5000, "not JSON that can be read (a number too long, or nested too deeply)"),
        ("[" * 100_000, "not JSON that can be read (a number too long, or nested too deeply)"),
    ],
    ids=["cut", "array", "long number", "deep"],
)
def test_what_is_not_json_is_said(text: str, problem: str) -> None:
    with pytest.raises(LineError) as caught:
        parse_line(text)
    assert str(caught.value) == problem
