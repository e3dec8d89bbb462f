import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.torch import save_file

from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.graph.names import Names
from kgprobe.predict import stored_arrays
from kgprobe.predict.adapters.embedding_files import (
    FileSizes,
    fit_problems,
    ids_by_name,
    is_embeddings,
    open_embeddings,
    write_embeddings,
)
from kgprobe.predict.adapters.interactions import parse_header
from kgprobe.predict.scorers import SIDES, Dot, EmbeddingScorer, GroupNorm, Side
from kgprobe.predict.stored_arrays import Shapes

Array = NDArray[Any]

ENTITIES, RELATIONS, HALF = 5, 2, 3

RNG = np.random.default_rng(0)

ENTITY = RNG.normal(size=(ENTITIES, 2 * HALF)).astype(np.float32)

OTHER = RNG.normal(size=(ENTITIES, 2 * HALF)).astype(np.float32)

RELATION = RNG.normal(size=(RELATIONS, 2 * HALF)).astype(np.float32)

PHASES = RELATION[:, :HALF]

MATRICES = RNG.normal(size=(RELATIONS, 2 * HALF, 2 * HALF)).astype(np.float32)

BIAS = RNG.normal(size=ENTITIES).astype(np.float32)

TEST = np.array([[0, 0, 1], [2, 1, 3], [0, 0, 4], [4, 1, 3]])

COMPLEX = {"entity": ENTITY, "relation": RELATION}

graph = KnowledgeGraph.from_triples(
    train=[[0, 0, 1], [1, 1, 2]],
    test=TEST,
    name="tiny",
    entity_labels=["ada", "bob", "cyd", "dan", "eve"],
    relation_labels=["knows", "likes"],
)


def _complex(values: Array) -> Array:
    return values[..., :HALF].astype(complex) + 1j * values[..., HALF:]


def _trilinear(heads: Array, relations: Array, tails: Array) -> Array:
    return np.einsum("hi,ri,ti->hrt", *(x.astype(complex) for x in (heads, relations, tails))).real


TRANSLATED = ENTITY[:, None, None].astype(float) + RELATION[:, None] - ENTITY

ROTATED = _complex(ENTITY)[:, None, None] * np.exp(1j * PHASES[:, None].astype(float)) - _complex(ENTITY)

MODELS: dict[str, tuple[dict[str, Any], dict[str, Array], Array]] = {
    "TransE-L1": ({"model": "TransE", "p": 1, "gamma": 9}, COMPLEX, 9 - np.abs(TRANSLATED).sum(axis=3)),
    "TransE-L2": ({"model": "TransE", "p": 2}, COMPLEX, -np.sqrt((TRANSLATED**2).sum(axis=3))),
    "DistMult": ({"model": "DistMult"}, COMPLEX, _trilinear(ENTITY, RELATION, ENTITY)),
    "DistMult with a bias": (
        {"model": "DistMult"},
        COMPLEX | {"entity_bias": BIAS},
        _trilinear(ENTITY, RELATION, ENTITY),
    ),
    "CP": (
        {"model": "CP"},
        {"head_entity": ENTITY, "tail_entity": OTHER, "relation": RELATION},
        _trilinear(ENTITY, RELATION, OTHER),
    ),
    "ComplEx": (
        {"model": "ComplEx"},
        COMPLEX,
        _trilinear(_complex(ENTITY), _complex(RELATION), _complex(ENTITY).conj()),
    ),
    "RotatE": (
        {"model": "RotatE", "gamma": 6.5},
        {"entity": ENTITY, "relation": PHASES},
        6.5 - np.abs(ROTATED).sum(axis=3),
    ),
    "RESCAL": (
        {"model": "RESCAL"},
        {"entity": ENTITY, "relation": MATRICES},
        np.einsum("hi,rij,tj->hrt", *(x.astype(float) for x in (ENTITY, MATRICES, ENTITY))),
    ),
}

"""Header, arrays, and the score [head, relation, tail] of every triple in float64, without the bias."""


def _scores(scorer: Any, side: Side, given: Array, relation: Array) -> Array:
    assert isinstance(scorer, EmbeddingScorer)
    queries, table = scorer.encode_queries(side, given, relation), scorer.candidates(side)
    assert (queries.dtype, table.dtype, table.flags.c_contiguous) == (np.float32, np.float32, True)
    pairs = [np.repeat(queries, len(table), axis=0), np.tile(table, (len(queries), 1))]
    return scorer.similarity.canonical(*pairs).reshape(len(queries), len(table))


def _assert_scores(scorer: Any, expected: Array, bias: Array | float = 0.0) -> None:
    """Every triple has the expected score [head, relation, tail], asked from either side; a bias is the answer's."""
    given, relation = (index.ravel() for index in np.indices((ENTITIES, RELATIONS)))
    tails = _scores(scorer, "tail", given, relation).reshape(expected.shape)
    heads = _scores(scorer, "head", given, relation).reshape(ENTITIES, RELATIONS, ENTITIES)
    np.testing.assert_allclose(tails, expected + bias, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(heads, expected.transpose(2, 1, 0) + bias, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("ending", ["npz", "safetensors"])
def test_a_model_is_written_and_read_again(tmp_path: Path, model: str, ending: str) -> None:
    header, arrays, expected = MODELS[model]
    path = tmp_path / f"m.{ending}"
    write_embeddings(path, header, arrays)
    assert is_embeddings(path)
    name, scorer, settings = open_embeddings(path, graph, TEST)
    assert (name, settings) == (header["model"], {"source": path.name, **header})
    assert json.loads(json.dumps(settings)) == settings
    _assert_scores(scorer, expected, arrays.get("entity_bias", 0.0))


@pytest.mark.parametrize("model", MODELS)
def test_rows_are_matched_by_name(tmp_path: Path, model: str) -> None:
    header, arrays, expected = MODELS[model]
    entities, relations = np.array([3, 1, 4, 0, 2]), np.array([1, 0])
    names = {"entities": graph.entity_label(entities), "relations": graph.relation_label(relations), "name": "mine"}
    moved = {name: array[relations if name == "relation" else entities] for name, array in arrays.items()}
    write_embeddings(tmp_path / "m.npz", header | names, moved)
    name, scorer, settings = open_embeddings(tmp_path / "m.npz", graph, TEST)
    assert (name, settings["matched by name"]) == ("mine", ["entities", "relations"])
    _assert_scores(scorer, expected, arrays.get("entity_bias", 0.0))


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_every_kind_of_numbers(tmp_path: Path, kind: str) -> None:
    """A file that another program wrote with the library of the format."""
    tensors = {name: torch.from_numpy(array).to(getattr(torch, kind)) for name, array in COMPLEX.items()}
    save_file(tensors, tmp_path / "m.safetensors", {"kgprobe": '{"model": "DistMult"}'})
    _, scorer, _ = open_embeddings(tmp_path / "m.safetensors", graph, TEST)
    exact = {name: tensor.to(torch.float64).numpy() for name, tensor in tensors.items()}
    np.testing.assert_array_equal(scorer.candidates("tail"), exact["entity"].astype(np.float32))  # type: ignore[union-attr]
    _assert_scores(scorer, _trilinear(exact["entity"], exact["relation"], exact["entity"]))


def test_parameters_of_torch_are_written(tmp_path: Path) -> None:
    tensors = {name: torch.nn.Parameter(torch.from_numpy(array)) for name, array in COMPLEX.items()}
    write_embeddings(tmp_path / "m.safetensors", {"model": "DistMult"}, tensors)
    _, scorer, _ = open_embeddings(tmp_path / "m.safetensors", graph, TEST)
    _assert_scores(scorer, _trilinear(ENTITY, RELATION, ENTITY))


def test_a_file_by_numpy_alone(tmp_path: Path) -> None:
    header = np.array('{"model": "DistMult"}')
    np.savez_compressed(tmp_path / "m.npz", header=header, entity=np.asfortranarray(ENTITY), relation=RELATION)
    _, scorer, _ = open_embeddings(tmp_path / "m.npz", graph, TEST)
    _assert_scores(scorer, _trilinear(ENTITY, RELATION, ENTITY))


def _queries(side: Side) -> Array:
    return 3 * ENTITY[TEST[:, 0 if side == "tail" else 2]] + RELATION[TEST[:, 1]]


QUERIES = {f"{side}_query": _queries(side) for side in SIDES}


@pytest.mark.parametrize(
    ("header", "bias"),
    [
        ({"similarity": "dot"}, None),
        ({"similarity": "dot"}, BIAS),
        ({"similarity": "group_norm", "group_size": 3, "gamma": 4}, None),
        ({"similarity": "group_norm", "group_size": None}, None),
    ],
    ids=["dot", "dot with a bias", "groups", "one group"],
)
def test_queries_that_were_computed_elsewhere(tmp_path: Path, header: dict[str, Any], bias: Array | None) -> None:
    arrays = {"entity": ENTITY, **QUERIES, "triples": TEST} | ({} if bias is None else {"entity_bias": bias})
    write_embeddings(tmp_path / "mine.npz", header, arrays)
    name, scorer, settings = open_embeddings(tmp_path / "mine.npz", graph, TEST)
    assert (name, settings) == ("mine", {"source": "mine.npz", **header})
    for side in SIDES:
        given, relation = TEST[::-1, 0 if side == "tail" else 2], TEST[::-1, 1]
        q, e = _queries(side)[::-1, None].astype(float), ENTITY.astype(float)
        if header["similarity"] == "dot":
            expected = (q * e).sum(axis=2) + (0 if bias is None else bias)
        else:
            groups = (q - e).reshape(len(TEST), ENTITIES, -1, header["group_size"] or 6)
            expected = header.get("gamma", 0) - np.linalg.norm(groups, axis=3).sum(axis=2)
        np.testing.assert_allclose(_scores(scorer, side, given, relation), expected, rtol=1e-5, atol=1e-5)


def test_entities_of_computed_queries_are_matched_by_name(tmp_path: Path) -> None:
    rows = np.array([3, 1, 4, 0, 2])
    header = {"similarity": "dot", "entities": graph.entity_label(rows)}
    write_embeddings(tmp_path / "m.npz", header, {"entity": ENTITY[rows], **QUERIES})
    _, scorer, settings = open_embeddings(tmp_path / "m.npz", graph, TEST)
    np.testing.assert_array_equal(scorer.candidates("head"), ENTITY)  # type: ignore[union-attr]
    assert settings["matched by name"] == ["entities"]


def _problems(path: Path, triples: Array = TEST) -> list[str]:
    with pytest.raises(DataError) as caught:
        open_embeddings(path, graph, triples)
    assert str(path) in caught.value.title
    assert caught.value.remedy
    return caught.value.problems


def _write(path: Path, header: Any, **arrays: Array) -> Path:
    """A file as anybody may write it, with whatever is wrong with it."""
    np.savez(path, header=np.array(header if isinstance(header, str) else json.dumps(header)), **arrays)
    return path


def test_computed_queries_that_contradict_each_other(tmp_path: Path) -> None:
    tails = QUERIES["tail_query"].copy()
    tails[2, 4] += 1
    path = _write(tmp_path / "m.npz", {"similarity": "dot"}, entity=ENTITY, tail_query=tails, triples=TEST[::-1])
    assert _problems(path) == [
        "triples: differ from the ranked ones in rows 0-3 (counted from 0)",
        "tail_query: rows of the same query differ (counted from 0): 0 and 2",
    ]
    assert _problems(path, TEST[:3]) == [
        "tail_query: 4 rows, but there are 3 triples to rank",
        "triples: 4 rows, but there are 3 triples to rank",
    ]


def test_a_side_without_queries(tmp_path: Path) -> None:
    write_embeddings(tmp_path / "m.npz", {"similarity": "dot"}, {"entity": ENTITY, "tail_query": QUERIES["tail_query"]})
    _, scorer, _ = open_embeddings(tmp_path / "m.npz", graph, TEST)
    with pytest.raises(DataError, match="no rows for queries of the head side"):
        _scores(scorer, "head", np.array([1]), np.array([0]))


def test_what_does_not_fit_is_listed_at_once(tmp_path: Path) -> None:
    header = {"model": "ComplEx", "entities": ["ada", "bob", "cyd", "dan", "dan"], "relations": ["knows", "hates"]}
    path = _write(tmp_path / "m.npz", header, entity=ENTITY[:4, :5], relation=np.ones((3, 5), dtype=int), extra=BIAS)
    assert _problems(path) == [
        "array 'extra' is not expected; there are: entity, entity_bias, relation",
        "entity: 4 rows, but there are 5 entities",
        "relation: holds int64, expected float16, bfloat16, float32 or float64",
        "relation: 3 rows, but there are 2 relations",
        "entity: 5 coordinates, but ComplEx has as many imaginary as real parts",
        "entities: 1 names given more than once: 'dan'",
        "entities: 1 names of the graph that are not given: 'eve'",
        "relations: 1 names that the graph does not have, or has more than once: 'hates'",
        "relations: 1 names of the graph that are not given: 'likes'",
    ]


def test_numbers_that_are_none_are_listed_at_once(tmp_path: Path) -> None:
    entity, relation, bias = ENTITY.copy(), RELATION.astype(np.float64), BIAS.copy()
    entity[[1, 2], 0], relation[0, 0], bias[4] = np.nan, 1e200, np.inf
    path = _write(tmp_path / "m.npz", {"model": "DistMult"}, entity=entity, relation=relation, entity_bias=bias)
    said = "rows hold NaN, infinity or numbers beyond float32"
    assert _problems(path) == [
        f"entity_bias: 1 {said}: 4 (counted from 0)",
        f"entity: 2 {said}: 1-2 (counted from 0)",
        f"relation: 1 {said}: 0 (counted from 0)",
    ]


def test_pickled_objects_are_never_loaded(tmp_path: Path) -> None:
    path = _write(tmp_path / "m.npz", {"model": "DistMult"}, entity=ENTITY.astype(object), relation=RELATION)
    (problem,) = _problems(path)
    assert "pickled Python objects, which are never loaded; save it as plain numbers" in problem


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("ComplEx", "header: not JSON"),
        ({"model": "Complx"}, "header: no model is called 'Complx'; nearest: ComplEx"),
        ({"model": "TransE"}, "header: 'p' is missing, expected 1 or 2"),
    ],
    ids=["no JSON", "unknown model", "a setting is missing"],
)
def test_headers_that_cannot_be_used(tmp_path: Path, header: Any, said: str) -> None:
    (problem,) = _problems(_write(tmp_path / "m.npz", header, **COMPLEX))
    assert problem.startswith(said)


def test_no_header(tmp_path: Path) -> None:
    np.savez(tmp_path / "m.npz", **COMPLEX)
    save_file({name: torch.from_numpy(array) for name, array in COMPLEX.items()}, tmp_path / "m.safetensors")
    for path in (tmp_path / "m.npz", tmp_path / "m.safetensors"):
        assert is_embeddings(path)
        (problem,) = _problems(path)
        assert problem.startswith("there is no header")


def test_truncated_and_missing_files(tmp_path: Path) -> None:
    for path in (tmp_path / "m.npz", tmp_path / "m.safetensors"):
        assert not is_embeddings(path)
        assert _problems(path) == ["no such file"]
        write_embeddings(path, {"model": "ComplEx"}, COMPLEX)
        path.write_bytes(path.read_bytes()[:-20])
        assert is_embeddings(path)
        assert len(_problems(path)) == 1


def test_nothing_is_written_that_could_not_be_ranked(tmp_path: Path) -> None:
    path = tmp_path / "m.npz"
    write_embeddings(path, {"model": "ComplEx"}, COMPLEX)
    before = path.read_bytes()
    with pytest.raises(DataError) as caught:
        write_embeddings(path, {"model": "ComplEx", "gama": 3}, COMPLEX)
    assert caught.value.problems[0].startswith("header: 'gama' is not expected")
    with pytest.raises(DataError) as caught:
        write_embeddings(path, {"model": "RotatE"}, {"entity": ENTITY[:, :5], "relation": RELATION.astype(int)})
    assert caught.value.problems == [
        "relation: holds int64, expected float16, bfloat16, float32 or float64",
        "relation: one row has shape (6,), expected (2,)",
        "entity: 5 coordinates, but RotatE has as many imaginary as real parts",
    ]
    with pytest.raises(UsageError, match="unknown format"):
        write_embeddings(tmp_path / "m.bin", {"model": "ComplEx"}, COMPLEX)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_other_files_are_no_embeddings(tmp_path: Path) -> None:
    np.savez(tmp_path / "scores.npz", tail=ENTITY)
    np.save(tmp_path / "entity.npy", ENTITY)
    (tmp_path / "lists.jsonl").write_text("{}", encoding="utf-8")
    assert not any(is_embeddings(path) for path in [tmp_path, *tmp_path.iterdir()])


def test_similarities_are_what_the_header_says(tmp_path: Path) -> None:
    for model, similarity in (("ComplEx", Dot()), ("RotatE", GroupNorm(2, 6.5)), ("TransE-L2", GroupNorm(None, 0.0))):
        header, arrays, _ = MODELS[model]
        write_embeddings(tmp_path / "m.npz", header, arrays)
        _, scorer, _ = open_embeddings(tmp_path / "m.npz", graph, TEST)
        assert scorer.similarity == similarity  # type: ignore[union-attr]


SIZES = FileSizes(entities=5, relations=2, triples=3)


def _size_problems(header: dict[str, Any], sizes: FileSizes = SIZES, **shapes: tuple[int, ...]) -> list[str]:
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
        ({"model": "QuatE"}, {"entity": (5, 8), "relation": (2, 8)}),
        ({"similarity": "dot"}, {"entity": (5, 8), "tail_query": (3, 8), "entity_bias": (5,), "triples": (3, 3)}),
        (DISTANCE, {"entity": (5, 6), "head_query": (3, 6), "tail_query": (3, 6)}),
    ],
)
def test_arrays_that_fit(header: dict[str, Any], shapes: dict[str, tuple[int, ...]]) -> None:
    assert _size_problems(header, **shapes) == []
    assert _size_problems(header, FileSizes(), **shapes) == []


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
            {"model": "QuatE"},
            {"entity": (5, 6), "relation": (2, 6)},
            ["entity: 6 coordinates, but QuatE has 4 equal parts"],
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
                "array 'entity' is not expected; nearest: tail_entity, head_entity, entity_bias",
            ],
        ),
        (
            {"model": "TransE", "p": 1},
            {"entity": (5, 8), "relation": (2, 8), "entity_bias": (5,)},
            ["array 'entity_bias' is not expected; nearest: entity"],
        ),
        (
            {"model": "DistMult"},
            {"entity": (5,), "relation": (2, 8)},
            ["entity: shape (5,), expected [entities, dimension]"],
        ),
        ({"model": "DistMult"}, {"entity": (5, 0), "relation": (2, 0)}, ["entity: the embeddings have no coordinates"]),
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
    assert _size_problems(header, **shapes) == expected


@given(st.permutations(["a", "b", "", "ä", "3"]))
def test_every_row_goes_to_the_id_of_its_name(rows: list[str]) -> None:
    labels = ["a", "b", "", "ä", "3"]
    ids = ids_by_name("entities", pa.array(rows), Names.build("entity", 5, pa.array(labels)), [])
    assert ids is not None
    assert ids.tolist() == [labels.index(name) for name in rows]


def test_ids_stand_for_names_that_are_not_there() -> None:
    ids = ids_by_name("entities", pa.array(["2", "0", "1"]), Names.build("entity", 3, None), [])
    assert ids is not None
    assert ids.tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    ("rows", "labels", "expected"),
    [
        (
            ["a", "x", "a", "y"],
            ["a", "b", "c"],
            [
                "entities: 2 names that the graph does not have, or has more than once: 'x', 'y'",
                "entities: 1 names given more than once: 'a'",
                "entities: 2 names of the graph that are not given: 'b', 'c'",
            ],
        ),
        (["a", "b"], ["a", "a"], ["entities: 2 names that the graph does not have, or has more than once: 'a', 'b'"]),
        (
            [],
            [f"e{i}" for i in range(12)],
            [
                "entities: 12 names of the graph that are not given: "
                "'e0', 'e1', 'e2', 'e3', 'e4', 'e5', 'e6', 'e7', 'e8', 'e9' and 2 more"
            ],
        ),
    ],
)
def test_names_that_do_not_match(rows: list[str], labels: list[str], expected: list[str]) -> None:
    problems: list[str] = []
    names = Names.build("entity", len(labels), pa.array(labels))
    assert ids_by_name("entities", pa.array(rows, pa.string()), names, problems) is None
    assert problems == expected


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("model", ["ComplEx", "RotatE", "TransE", "DistMult"])
@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_large_tables_stay_in_their_files(
    suffix: str, model: str, named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"entities": ["eve", "dan", "ada", "cyd", "bob"]} if named else {}
    header = {"model": model, **({"p": 1} if model == "TransE" else {}), **names}
    write_embeddings(
        tmp_path / f"m{suffix}", header, {"entity": ENTITY, "relation": PHASES if model == "RotatE" else RELATION}
    )
    _, small, _ = open_embeddings(tmp_path / f"m{suffix}", graph, TEST)
    monkeypatch.setattr(stored_arrays, "LARGE_BYTES", 0)
    _, large, _ = open_embeddings(tmp_path / f"m{suffix}", graph, TEST)
    assert isinstance(small, EmbeddingScorer)
    assert isinstance(large, EmbeddingScorer)
    assert isinstance(large.candidates("tail"), stored_arrays.StoredTable)
    for index in (slice(0, 5), slice(2, 4), np.array([4, 0, 4])):
        assert np.array_equal(large.candidates("head")[index], small.candidates("head")[index])
    ids = np.array([0, 3, 3]), np.array([1, 0, 1])
    for side in SIDES:
        assert np.array_equal(large.encode_queries(side, *ids), small.encode_queries(side, *ids))
