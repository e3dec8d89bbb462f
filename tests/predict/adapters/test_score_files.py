import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.torch import save_file

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.predict.adapters import score_files
from kgprobe.predict.adapters.score_files import (
    INTEGERS,
    ArraySpec,
    QueryRows,
    RowReader,
    is_scores,
    open_scores,
    spec_problems,
    triple_mismatch,
)
from kgprobe.predict.scorers import SIDES, Scorer, Side

Array = NDArray[Any]

TEST = np.array([[0, 0, 1], [2, 1, 3], [0, 0, 4], [4, 1, 3], [2, 1, 0]])

graph = KnowledgeGraph.from_triples(train=[[0, 0, 1], [1, 1, 2]], test=TEST, name="tiny")


def _answers(side: Side, seed: int = 0) -> Array:
    """Scores [n, entities] by which the same query always gets the same."""
    table = np.random.default_rng(seed).normal(size=(5, 2, 5))
    return table[TEST[:, 0 if side == "tail" else 2], TEST[:, 1]]


def _arrays() -> dict[str, Array]:
    return {side: _answers(side, seed) for seed, side in enumerate(SIDES)}


def _save(folder: Path, form: str, arrays: dict[str, Array]) -> Path:
    path = folder / {"folder": "mine", "safetensors": "mine.safetensors"}.get(form, "mine.npz")
    if form == "folder":
        path.mkdir()
        for name, array in arrays.items():
            np.save(path / name, array)
    elif form == "safetensors":
        save_file({name: torch.from_numpy(array.copy()) for name, array in arrays.items()}, path)
    else:
        {"npz": np.savez, "compressed": np.savez_compressed}[form](path, **arrays)
    return path


FORMS = ["npz", "compressed", "safetensors", "folder"]


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
@pytest.mark.parametrize("form", FORMS)
def test_every_query_finds_its_row(tmp_path: Path, form: str, kind: str) -> None:
    arrays = {name: array.astype(kind) for name, array in _arrays().items()}
    path = _save(tmp_path, form, arrays)
    assert is_scores(path)
    name, scorer, settings = open_scores(path, graph, TEST)
    assert (name, settings) == ("mine", {"source": path.name})
    assert isinstance(scorer, Scorer)
    order = np.array([4, 1, 0, 3, 2, 0])
    for side, scores in arrays.items():
        given = TEST[order, 0 if side == "tail" else 2]
        found = scorer.score(side, given, TEST[order, 1])  # type: ignore[arg-type]
        assert found.dtype == ("float64" if kind == "float64" else "float32")
        np.testing.assert_array_equal(found, scores[order])


def test_scores_of_16_bits_are_widened_exactly(tmp_path: Path) -> None:
    tails = torch.from_numpy(_answers("tail")).to(torch.bfloat16)
    save_file({"tail": tails}, tmp_path / "m.safetensors")
    _, scorer, _ = open_scores(tmp_path / "m.safetensors", graph, TEST)
    assert isinstance(scorer, Scorer)
    found = scorer.score("tail", TEST[:, 0], TEST[:, 1])
    np.testing.assert_array_equal(found, tails.to(torch.float32).numpy(), strict=True)


def test_infinities_and_nan_are_handed_on(tmp_path: Path) -> None:
    tails = _answers("tail")
    tails[[0, 2], 0], tails[[0, 2], 1], tails[3, 2] = np.inf, -np.inf, np.nan
    _, scorer, _ = open_scores(_save(tmp_path, "npz", {"tail": tails}), graph, TEST)
    assert isinstance(scorer, Scorer)
    np.testing.assert_array_equal(scorer.score("tail", TEST[:, 0], TEST[:, 1]), tails)


@pytest.mark.parametrize("form", FORMS)
def test_triples_that_are_there_too_must_be_those_that_are_ranked(tmp_path: Path, form: str) -> None:
    path = _save(tmp_path, form, _arrays() | {"triples": TEST})
    open_scores(path, graph, TEST)
    assert _problems(path, TEST[[0, 1, 4, 3, 2]]) == [
        "triples: differ from the ranked ones in rows 2, 4 (counted from 0)"
    ]


def _problems(path: Path, triples: Array = TEST) -> list[str]:
    with pytest.raises(DataError) as caught:
        open_scores(path, graph, triples)
    assert str(path) in caught.value.title
    assert caught.value.remedy
    return caught.value.problems


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_the_same_query_must_be_alike(tmp_path: Path, form: str) -> None:
    arrays = _arrays()
    arrays["tail"][2, 4] = np.nextafter(arrays["tail"][0, 4], 9)
    arrays["head"][3] = 0
    assert _problems(_save(tmp_path, form, arrays)) == [
        "tail: rows of the same query differ (counted from 0): 0 and 2",
        "head: rows of the same query differ (counted from 0): 1 and 3",
    ]


def test_a_side_that_is_not_there(tmp_path: Path) -> None:
    path = _save(tmp_path, "npz", {"tail": _answers("tail")})
    _, scorer, _ = open_scores(path, graph, TEST)
    assert isinstance(scorer, Scorer)
    with pytest.raises(DataError, match="no rows for queries of the head side") as caught:
        scorer.score("head", TEST[:, 2], TEST[:, 1])
    assert caught.value.remedy == "rank the tail side alone, or add the rows"


def test_what_does_not_fit_is_listed_at_once(tmp_path: Path) -> None:
    arrays = {"tail": np.ones((4, 6)), "head": np.ones((5, 5), dtype=np.int64), "heads": np.ones(3)}
    assert _problems(_save(tmp_path, "npz", arrays)) == [
        "array 'heads' is not expected; nearest: head",
        "tail: 4 rows, but there are 5 triples to rank",
        "tail: one row has shape (6,), expected (5,)",
        "head: holds int64, expected float16, bfloat16, float32 or float64",
    ]


def test_no_scores_at_all(tmp_path: Path) -> None:
    assert _problems(_save(tmp_path, "npz", {"triples": TEST})) == [
        "no scores: neither an array 'tail' nor an array 'head'"
    ]
    assert _problems(tmp_path) == ["no scores: neither an array 'tail' nor an array 'head'"]
    assert not is_scores(tmp_path)
    assert not is_scores(tmp_path / "none.npz")
    assert _problems(tmp_path / "none.npz") == ["no such file"]


def test_pickled_objects_are_never_loaded(tmp_path: Path) -> None:
    (problem,) = _problems(_save(tmp_path, "npz", {"tail": _answers("tail").astype(object)}))
    assert "never loaded" in problem


@pytest.mark.parametrize("form", FORMS)
def test_truncated_files(tmp_path: Path, form: str) -> None:
    path = _save(tmp_path, form, _arrays())
    file = path / "head.npy" if form == "folder" else path
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(DataError, match="cannot be read") as caught:
        open_scores(path, graph, TEST)
    assert str(file) in caught.value.title


def test_a_big_matrix_is_not_loaded(tmp_path: Path) -> None:
    entities = 1 << 17
    big = KnowledgeGraph.from_triples(test=[[i, 0, i + 1] for i in range(64)], num_entities=entities)
    np.save(tmp_path / "tail.npy", np.broadcast_to(np.arange(64, dtype=np.float32)[:, None], (64, entities)))
    tracemalloc.start()
    _, scorer, _ = open_scores(tmp_path, big, big.triples("test"))
    assert isinstance(scorer, Scorer)
    found = scorer.score("tail", np.array([5, 60]), np.array([0, 0]))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found[:, -1].tolist() == [5, 60]
    assert peak < 4 << 20


TRIPLES = np.array([[7, 0, 1], [4, 1, 1], [7, 0, 2], [4, 0, 1], [7, 0, 1]])


def _rows(
    values: NDArray[np.float64], side: Side, problems: list[str], triples: NDArray[np.int64] = TRIPLES
) -> QueryRows:
    reader = RowReader(f"{side} scores", values.shape[1], lambda rows: values[rows])
    return QueryRows.of_triples(Path("m.npz"), triples, 2, {side: reader}, problems)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 3)), min_size=1))
def test_rows_are_those_that_a_dictionary_finds(asked: list[tuple[int, int, int]]) -> None:
    triples = np.array(asked)
    values = {"tail": triples[:, :1] * 10.0 + triples[:, 1:2], "head": triples[:, 2:] * 10.0 + triples[:, 1:2]}
    for side, given_column in (("tail", 0), ("head", 2)):
        problems: list[str] = []
        rows = _rows(values[side], side, problems, triples)  # type: ignore[arg-type]
        assert problems == []
        found = rows.find(side, triples[::-1, given_column], triples[::-1, 1])  # type: ignore[arg-type]
        assert found.tolist() == values[side][::-1].tolist()


def test_rows_of_the_same_query_that_differ_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.array([[1.0, 2], [3, 4], [1, 2], [5, np.nan], [1, 2.5]])
    for block in (1, 1 << 21):
        monkeypatch.setattr(score_files, "_BLOCK_NUMBERS", block)
        problems: list[str] = []
        _rows(values, "tail", problems)
        assert problems == ["tail scores: rows of the same query differ (counted from 0): 0 and 4"]
        problems.clear()
        _rows(values, "head", problems)
        assert problems == ["head scores: rows of the same query differ (counted from 0): 0 and 3, 0 and 4"]


def test_many_differing_pairs_are_counted() -> None:
    problems: list[str] = []
    _rows(np.arange(9.0)[:, None], "tail", problems, np.zeros((9, 3), dtype=np.int64))
    assert problems == [
        "tail scores: rows of the same query differ (counted from 0): "
        "0 and 1, 0 and 2, 0 and 3, 0 and 4, 0 and 5 and 3 more pairs"
    ]


def test_nan_is_like_nan() -> None:
    problems: list[str] = []
    _rows(np.full((2, 3), np.nan), "tail", problems, np.zeros((2, 3), dtype=np.int64))
    assert problems == []


def test_rows_of_a_side_that_is_not_there() -> None:
    with pytest.raises(DataError, match=r"m\.npz: no rows for queries of the head side") as caught:
        _rows(np.zeros((5, 2)), "tail", []).find("head", np.array([1]), np.array([0]))
    assert caught.value.problems == ["there are rows for the tail side"]
    assert caught.value.remedy == "rank the tail side alone, or add the rows"


def test_queries_that_are_not_there() -> None:
    rows = _rows(np.zeros((5, 2)), "tail", [])
    with pytest.raises(DataError, match="no rows for some queries of the tail side") as caught:
        rows.find("tail", np.array([7, 7, 1]), np.array([0, 1, 0]))
    assert caught.value.problems == ["entity 7, relation 1", "entity 1, relation 0"]
    with pytest.raises(DataError) as caught:
        rows.find("tail", np.arange(100, 110), np.zeros(10, dtype=int))
    assert caught.value.problems[-1] == "and 5 more"


def test_no_triples_at_all() -> None:
    problems: list[str] = []
    rows = _rows(np.empty((0, 2)), "tail", problems, np.empty((0, 3), dtype=np.int64))
    assert rows.find("tail", np.empty(0, dtype=int), np.empty(0, dtype=int)).shape == (0, 2)
    assert problems == []


def test_other_triples() -> None:
    assert triple_mismatch(TRIPLES.astype(np.int32), TRIPLES) == []
    swapped = TRIPLES[[0, 2, 1, 3, 4]]
    assert triple_mismatch(swapped, TRIPLES) == ["triples: differ from the ranked ones in rows 1-2 (counted from 0)"]


TAIL = ArraySpec("tail", "triples", 3, (9,))


@pytest.mark.parametrize(
    ("shape", "kind", "problems"),
    [
        ((3, 9), "bfloat16", []),
        ((2, 9), "float32", ["tail: 2 rows, but there are 3 triples"]),
        ((3, 8), "float32", ["tail: one row has shape (8,), expected (9,)"]),
        ((3,), "float32", ["tail: one row has shape (), expected (9,)"]),
        ((), "float32", ["tail: a single value, expected one row for each of the triples"]),
        ((3, 9), "int64", ["tail: holds int64, expected float16, bfloat16, float32 or float64"]),
        ((3, 9), "complex64", ["tail: holds complex64, expected float16, bfloat16, float32 or float64"]),
        ((3, 9), "F8_E4M3", ["tail: holds F8_E4M3, expected float16, bfloat16, float32 or float64"]),
        (
            (4, 1, 9),
            "bool",
            [
                "tail: holds bool, expected float16, bfloat16, float32 or float64",
                "tail: 4 rows, but there are 3 triples",
                "tail: one row has shape (1, 9), expected (9,)",
            ],
        ),
    ],
)
def test_everything_wrong_with_an_array_is_said(shape: tuple[int, ...], kind: str, problems: list[str]) -> None:
    assert TAIL.problems(shape, kind) == problems


def test_pickled_objects_are_named_with_the_safe_way() -> None:
    (problem,) = TAIL.problems((3, 9), "object")
    assert "never loaded; save it as plain numbers: float16, bfloat16, float32 or float64" in problem


def test_what_is_not_known_is_not_asked() -> None:
    assert ArraySpec("x", "triples", None, None).problems((7, 2, 2), "float32") == []
    assert ArraySpec("x", "triples", 7, None, INTEGERS).problems((7, 2, 2), "int32") == []


def test_arrays_that_are_missing_or_have_no_place() -> None:
    specs = [TAIL, ArraySpec("head", "triples", 3, (9,)), ArraySpec("bias", "triples", 3, (), needed=False)]
    assert spec_problems(specs, {"tail": ((3, 9), "float32"), "heads": ((3, 9), "float32"), "x": ((), "int8")}) == [
        "no array 'head'",
        "array 'heads' is not expected; nearest: head",
        "array 'x' is not expected; there are: tail, head, bias",
    ]
