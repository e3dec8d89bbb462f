import math
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kgprobe.predict import scorers as protocols
from kgprobe.predict.adapters import interactions
from kgprobe.predict.adapters.embedding_files import read_table
from kgprobe.predict.adapters.interactions import INTERACTIONS, ComposedScorer, neighbours, unit_circle
from kgprobe.predict.array_files import open_arrays
from kgprobe.predict.scorers import Dot, GroupNorm, Side, Similarity
from kgprobe.predict.stored_arrays import StoredArray

Array = NDArray[np.float64]

ENTITIES, RELATIONS, HALF = 7, 3, 4

DIMENSION = 2 * HALF


def _complex(vector: Array) -> NDArray[np.complex128]:
    """The layout of the files: real half, then imaginary half."""
    return np.array([complex(vector[i], vector[HALF + i]) for i in range(HALF)])


def _trans_e_1(h: Array, r: Array, t: Array) -> float:
    return 9 - sum(abs(a + b - c) for a, b, c in zip(h, r, t, strict=True))


def _trans_e_2(h: Array, r: Array, t: Array) -> float:
    return 9 - math.sqrt(sum((a + b - c) ** 2 for a, b, c in zip(h, r, t, strict=True)))


def _trilinear(h: Array, r: Array, t: Array) -> float:
    return sum(a * b * c for a, b, c in zip(h, r, t, strict=True))


def _compl_ex(h: Array, r: Array, t: Array) -> float:
    return float((_complex(h) * _complex(r) * _complex(t).conj()).sum().real)


def _rotat_e(h: Array, r: Array, t: Array) -> float:
    return 9 - float(np.abs(_complex(h) * np.exp(1j * r) - _complex(t)).sum())


def _rescal(h: Array, r: Array, t: Array) -> float:
    return sum(h[i] * r[i, j] * t[j] for i in range(DIMENSION) for j in range(DIMENSION))


def _hamilton(a: Array, b: Array) -> Array:
    """The product of quaternions by matrices: i, j and k are 4 x 4 matrices that multiply as they do."""
    return (
        np.array(
            [
                [b[0], -b[1], -b[2], -b[3]],
                [b[1], b[0], b[3], -b[2]],
                [b[2], -b[3], b[0], b[1]],
                [b[3], b[2], -b[1], b[0]],
            ]
        )
        @ a
    )


def _quat_e(h: Array, r: Array, t: Array) -> float:
    score = 0.0
    for i in range(DIMENSION // 4):
        numbers = [vector[i :: DIMENSION // 4] for vector in (h, r, t)]
        score += float(_hamilton(numbers[0], numbers[1]) @ numbers[2]) / math.hypot(*numbers[1])
    return score


def test_units_of_quaternions() -> None:
    one, i, j, k = np.eye(4)
    assert _hamilton(i, j).tolist() == k.tolist()
    assert _hamilton(j, i).tolist() == (-k).tolist()
    assert _hamilton(j, k).tolist() == i.tolist()
    assert _hamilton(k, i).tolist() == j.tolist()
    assert all(_hamilton(unit, unit).tolist() == (-one).tolist() for unit in (i, j, k))


DEFINITIONS: dict[str, tuple[str, dict[str, float], Callable[[Array, Array, Array], float]]] = {
    "TransE-L1": ("TransE", {"p": 1, "gamma": 9}, _trans_e_1),
    "TransE-L2": ("TransE", {"p": 2, "gamma": 9}, _trans_e_2),
    "DistMult": ("DistMult", {}, _trilinear),
    "CP": ("CP", {}, _trilinear),
    "ComplEx": ("ComplEx", {}, _compl_ex),
    "RotatE": ("RotatE", {"gamma": 9}, _rotat_e),
    "RESCAL": ("RESCAL", {}, _rescal),
    "QuatE": ("QuatE", {}, _quat_e),
}


def stored_arrays(name: str, seed: int = 0, dimension: int = DIMENSION) -> tuple[Array, Array, Array]:
    """Entities as heads, entities as tails and relations in the layout of the files, as float32 holds them."""
    rng = np.random.default_rng(seed)
    interaction = INTERACTIONS[name]
    heads = rng.normal(size=(ENTITIES, dimension)).astype(np.float32)
    tails = rng.normal(size=(ENTITIES, dimension)).astype(np.float32) if len(set(interaction.tables)) == 2 else heads
    relations = 2 * rng.normal(size=(RELATIONS, *interaction.relation_shape(dimension))).astype(np.float32)
    return heads.astype(np.float64), tails.astype(np.float64), relations.astype(np.float64)


def composed(name: str, settings: dict[str, float], heads: Array, tails: Array, relations: Array) -> ComposedScorer:
    interaction = INTERACTIONS[name]
    arranged = [interaction.arrange_entity(table).astype(np.float32) for table in (heads, tails)]
    table = interaction.arrange_relation(relations).astype(np.float32)
    return ComposedScorer(interaction, interaction.similarity(settings), heads.shape[1], *arranged, table)


def compared(similarity: Similarity, queries: NDArray[np.float32], candidates: NDArray[np.float32]) -> Array:
    """The scores of all candidates for all queries, in float64."""
    if isinstance(similarity, Dot):
        return queries.astype(np.float64) @ candidates.astype(np.float64).T
    difference = queries[:, None].astype(np.float64) - candidates.astype(np.float64)
    groups = difference.reshape(*difference.shape[:2], -1, similarity.width(candidates.shape[1]))
    return similarity.gamma - np.sqrt((groups**2).sum(axis=3)).sum(axis=2)


@pytest.mark.parametrize("model", DEFINITIONS)
def test_both_sides_score_every_triple_as_the_definition_does(model: str) -> None:
    name, settings, definition = DEFINITIONS[model]
    heads, tails, relations = stored_arrays(name)
    scorer = composed(name, settings, heads, tails, relations)
    expected = np.array([[[definition(h, r, t) for t in tails] for r in relations] for h in heads])
    given, relation = (index.ravel() for index in np.indices((ENTITIES, RELATIONS)))
    scores: dict[Side, Array] = {
        side: compared(scorer.similarity, scorer.encode_queries(side, given, relation), scorer.candidates(side))
        for side in protocols.SIDES
    }
    np.testing.assert_allclose(scores["tail"].reshape(expected.shape), expected, rtol=1e-5, atol=1e-5)
    as_asked = scores["head"].reshape(ENTITIES, RELATIONS, ENTITIES).transpose(2, 1, 0)
    np.testing.assert_allclose(as_asked, expected, rtol=1e-5, atol=1e-5)


def test_every_model_has_a_definition_in_this_file() -> None:
    assert {name for name, _, _ in DEFINITIONS.values()} == set(INTERACTIONS)


@pytest.mark.parametrize("model", DEFINITIONS)
def test_a_query_does_not_depend_on_what_else_is_asked(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, settings, _ = DEFINITIONS[model]
    scorer = composed(name, settings, *stored_arrays(name, seed=1, dimension=36))
    rng = np.random.default_rng(2)
    given, relation = rng.integers(0, ENTITIES, 50), rng.integers(0, RELATIONS, 50)
    for side in protocols.SIDES:
        together = scorer.encode_queries(side, given, relation)
        assert together.dtype == np.float32
        alone = [scorer.encode_queries(side, given[i : i + 1], relation[i : i + 1]) for i in range(50)]
        assert np.concatenate(alone).tobytes() == together.tobytes()
        order = rng.permutation(50)
        assert scorer.encode_queries(side, given[order], relation[order]).tobytes() == together[order].tobytes()
        with monkeypatch.context() as patch:
            patch.setattr(interactions, "_BLOCK_NUMBERS", 36 * 7)
            assert scorer.encode_queries(side, given, relation).tobytes() == together.tobytes()


@pytest.mark.parametrize("dimension", [1, 2, 7, 8, 33, 100])
@pytest.mark.parametrize("queries", [1, 2, 5, 64])
def test_sums_run_in_the_order_of_the_coordinates(dimension: int, queries: int) -> None:
    """So that they do not depend on the machine, nor on how many queries have the same relation."""
    heads, tails, relations = stored_arrays("RESCAL", seed=3, dimension=dimension)
    matrix = relations[1]
    given, relation = np.random.default_rng(4).integers(0, ENTITIES, queries), np.ones(queries, dtype=int)
    for side, images in (("tail", matrix), ("head", matrix.T)):
        expected = np.zeros((queries, dimension))
        for i in range(dimension):
            expected += heads[given, i, None] * images[i]
        compose = INTERACTIONS["RESCAL"].compose
        found = compose(side, tails[given], relations.astype(np.float32), relation)  # type: ignore[arg-type]
        assert found.tobytes() == expected.tobytes()


def test_a_query_is_rounded_once() -> None:
    """A product computed in float32 would lose the small part: 1 - (1 + 2^-23)(1 - 2^-23) = 2^-46."""
    up, down = 1 + 2.0**-23, 1 - 2.0**-23
    scorer = composed("ComplEx", {}, np.array([[1, up]]), np.array([[1, up]]), np.array([[1, down]]))
    assert scorer.encode_queries("tail", np.array([0]), np.array([0]))[0, 0] == 2.0**-46


@pytest.mark.parametrize("model", DEFINITIONS)
def test_the_engine_takes_it_for_an_embedding_scorer(model: str) -> None:
    name, settings, _ = DEFINITIONS[model]
    scorer = composed(name, settings, *stored_arrays(name))
    assert isinstance(scorer, protocols.EmbeddingScorer)
    assert scorer.encode_queries("head", np.empty(0, dtype=int), np.empty(0, dtype=int)).shape == (0, DIMENSION)


def test_what_candidates_have_beyond_the_dimension_is_added_to_their_scores() -> None:
    heads, _, relations = stored_arrays("DistMult")
    plain = composed("DistMult", {}, heads, heads, relations)
    biased = np.column_stack([plain.heads, np.arange(ENTITIES, dtype=np.float32)])
    scorer = ComposedScorer(plain.interaction, Dot(), DIMENSION, biased, biased, plain.relations)
    given, relation = np.array([1, 4]), np.array([2, 0])
    for side in protocols.SIDES:
        without = compared(Dot(), plain.encode_queries(side, given, relation), plain.candidates(side))
        with_bias = compared(Dot(), scorer.encode_queries(side, given, relation), scorer.candidates(side))
        np.testing.assert_allclose(with_bias, without + np.arange(ENTITIES), rtol=1e-12)


def test_similarities() -> None:
    assert INTERACTIONS["TransE"].similarity({"p": 1}) == GroupNorm(size=1, gamma=0)
    assert INTERACTIONS["TransE"].similarity({"p": 2, "gamma": 3}) == GroupNorm(size=None, gamma=3)
    assert INTERACTIONS["RotatE"].similarity({}) == GroupNorm(size=2, gamma=0)
    assert {INTERACTIONS[name].similarity({}) for name in ("DistMult", "CP", "ComplEx", "RESCAL", "QuatE")} == {Dot()}


def test_layouts() -> None:
    assert neighbours(np.array([[1, 2, 3, 10, 20, 30]])).tolist() == [[1, 10, 2, 20, 3, 30]]
    turned = unit_circle(np.array([[0, np.pi / 2, 1e5]], dtype=np.float32))
    exact = [float(np.float32(phase)) for phase in (0, np.pi / 2, 1e5)]
    np.testing.assert_allclose(turned, [[f(p) for p in exact for f in (math.cos, math.sin)]], rtol=0, atol=1e-15)


def _stored(folder: Path, values: NDArray[Any]) -> StoredArray:
    np.savez(folder / "m.npz", table=values)
    return open_arrays(folder / "m.npz").arrays["table"]


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_a_table_is_rounded_to_float32(tmp_path: Path, kind: type[Any]) -> None:
    values = np.random.default_rng(0).normal(size=(9, 4)).astype(kind)
    problems: list[str] = []
    table = read_table(_stored(tmp_path, values), problems)
    np.testing.assert_array_equal(table, values.astype(np.float32), strict=True)
    assert problems == []


def test_order_layout_and_spare_columns(tmp_path: Path) -> None:
    values = np.arange(12.0).reshape(3, 4)
    ids = np.array([2, 0, 1])
    table = read_table(_stored(tmp_path, values), [], ids=ids, arrange=neighbours, spare=2)
    assert table.tolist() == [[4, 6, 5, 7, 0, 0], [8, 10, 9, 11, 0, 0], [0, 2, 1, 3, 0, 0]]
    assert read_table(_stored(tmp_path, values[:, :1]), [], arrange=unit_circle).shape == (3, 2)
    cube = np.arange(24.0).reshape(2, 3, 4)
    assert read_table(_stored(tmp_path, cube), [], ids=np.array([1, 0])).tolist() == cube[::-1].tolist()


def test_phases_keep_their_precision_until_they_are_angles(tmp_path: Path) -> None:
    phases = np.array([[1e6 + 1 / 3]])
    (turned,) = read_table(_stored(tmp_path, phases), [], arrange=unit_circle).tolist()
    assert turned == pytest.approx([np.cos(1e6 + 1 / 3), np.sin(1e6 + 1 / 3)], abs=1e-7)


def test_rows_that_are_not_finite_are_named_as_they_are_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StoredArray.blocks, "__defaults__", (32,))
    values = np.ones((9, 2))
    values[2, 1], values[5, 0], values[6, 0], values[8, 1] = np.nan, np.inf, -np.inf, 1e39
    problems: list[str] = []
    read_table(_stored(tmp_path, values), problems, ids=np.arange(9)[::-1])
    assert problems == [
        "table: 4 rows hold NaN, infinity or numbers beyond float32: 2, 5-6, 8 (counted from 0)",
    ]


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed], ids=["stored", "compressed"])
def test_no_more_memory_than_the_table_and_a_little(tmp_path: Path, save: Any) -> None:
    values = np.repeat(np.arange(1 << 10), 1 << 13).reshape(-1, 8) + np.arange(8.0)
    save(tmp_path / "m.npz", table=values)
    array = open_arrays(tmp_path / "m.npz").arrays["table"]
    ids = np.random.default_rng(1).permutation(len(values))
    tracemalloc.start()
    table = read_table(array, [], ids=ids, arrange=neighbours)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    np.testing.assert_array_equal(table[ids[:100]], neighbours(values[:100]))
    assert peak < table.nbytes + (48 << 20) < table.nbytes + values.nbytes
