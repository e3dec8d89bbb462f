import json
from typing import Any

import pytest

from kgprobe.predict.sources.files.fit import Sizes, fit_problems
from kgprobe.predict.sources.files.header import parse_header
from kgprobe.predict.sources.files.places import Shapes

SIZES = Sizes(entities=5, relations=2, triples=3)


def _problems(header: dict[str, Any], sizes: Sizes = SIZES, **shapes: tuple[int, ...]) -> list[str]:
    parsed = parse_header(json.dumps(header), [])
    assert parsed is not None
    arrays: Shapes = {name: (shape, "int64" if name == "triples" else "float32") for name, shape in shapes.items()}
    return fit_problems(parsed, arrays, sizes)


DISTANCE = {"similarity": "group_norm", "group_size": 3}


@pytest.mark.parametrize(
    ("header", "shapes"),
    [
        ({"model": "DistMult"}, {"entity": (5, 7), "relation": (2, 7)}),
        ({"model": "DistMult"}, {"entity": (5, 7), "relation": (2, 7), "entity_bias": (5,)}),
        ({"model": "TransE", "p": 1}, {"entity": (5, 7), "relation": (2, 7)}),
        ({"model": "ComplEx"}, {"entity": (5, 8), "relation": (2, 8)}),
        ({"model": "RotatE"}, {"entity": (5, 8), "relation": (2, 4)}),
        ({"model": "CP"}, {"head_entity": (5, 8), "tail_entity": (5, 8), "relation": (2, 8)}),
        ({"model": "RESCAL"}, {"entity": (5, 8), "relation": (2, 8, 8)}),
        ({"similarity": "dot"}, {"entity": (5, 8), "tail_query": (3, 8), "entity_bias": (5,), "triples": (3, 3)}),
        (DISTANCE, {"entity": (5, 6), "head_query": (3, 6), "tail_query": (3, 6)}),
    ],
)
def test_arrays_that_fit(header: dict[str, Any], shapes: dict[str, tuple[int, ...]]) -> None:
    assert _problems(header, **shapes) == []
    assert _problems(header, Sizes(), **shapes) == []


@pytest.mark.parametrize(
    ("header", "shapes", "expected"),
    [
        (
            {"model": "DistMult"},
            {"entity": (4, 8), "relation": (3, 7), "entity_bias": (5, 1)},
            [
                "entity: 4 rows, but there are 5 entities",
                "entity_bias: one row has shape (1,), expected ()",
                "relation: 3 rows, but there are 2 relations",
                "relation: one row has shape (7,), expected (8,)",
            ],
        ),
        (
            {"model": "ComplEx"},
            {"entity": (5, 7), "relation": (2, 7)},
            ["entity: 7 coordinates, but ComplEx has as many imaginary as real parts"],
        ),
        (
            {"model": "RotatE"},
            {"entity": (5, 8), "relation": (2, 8)},
            ["relation: one row has shape (8,), expected (4,)"],
        ),
        (
            {"model": "RotatE"},
            {"entity": (5, 7), "relation": (2, 3)},
            ["entity: 7 coordinates, but RotatE has as many imaginary as real parts"],
        ),
        (
            {"model": "RESCAL"},
            {"entity": (5, 8), "relation": (2, 64)},
            ["relation: one row has shape (64,), expected (8, 8)"],
        ),
        (
            {"model": "CP"},
            {"head_entity": (5, 8), "tail_entity": (5, 6), "relation": (2, 8)},
            ["tail_entity: one row has shape (6,), expected (8,)"],
        ),
        (
            {"model": "CP"},
            {"entity": (5, 8), "relation": (2, 8)},
            [
                "no array 'head_entity'",
                "no array 'tail_entity'",
                "array 'entity' has no place here; nearest: tail_entity, head_entity, entity_bias",
            ],
        ),
        (
            {"model": "TransE", "p": 1},
            {"entity": (5, 8), "relation": (2, 8), "entity_bias": (5,)},
            ["array 'entity_bias' has no place here; nearest: entity"],
        ),
        (
            {"model": "DistMult"},
            {"entity": (5,), "relation": (2, 8)},
            ["entity: shape (5,), expected [entities, dimension]"],
        ),
        ({"model": "DistMult"}, {"entity": (5, 0), "relation": (2, 0)}, ["entity: the vectors have no coordinates"]),
        (
            {"model": "DistMult"},
            {"entity": (), "relation": (2, 8)},
            ["entity: a single value, expected one row for each of the entities"],
        ),
        ({"similarity": "dot"}, {"entity": (5, 8)}, ["no array 'tail_query' and no array 'head_query'"]),
        (
            {"similarity": "dot"},
            {"entity": (5, 8), "tail_query": (4, 7), "triples": (4, 3)},
            [
                "tail_query: 4 rows, but there are 3 triples to rank",
                "tail_query: one row has shape (7,), expected (8,)",
                "triples: 4 rows, but there are 3 triples to rank",
            ],
        ),
        (
            DISTANCE,
            {"entity": (5, 8), "tail_query": (3, 8)},
            ["entity: 8 coordinates do not divide into groups of 3"],
        ),
    ],
)
def test_arrays_that_do_not_fit(header: dict[str, Any], shapes: dict[str, Any], expected: list[str]) -> None:
    assert _problems(header, **shapes) == expected
