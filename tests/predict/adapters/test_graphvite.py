import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from graphvite_files import save_graphvite
from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph, load_graph
from kgprobe.predict import rank
from kgprobe.predict.adapters.graphvite import convert_graphvite
from kgprobe.predict.array_files import list_arrays
from ranking import Matrix, brute_force, graph_of, rows_of

Floats = NDArray[np.float64]

ENTITIES, RELATIONS, WIDTH, MARGIN = 19, 3, 8, 6.5

bare = graph_of(2, ENTITIES, RELATIONS, 60)
graph = KnowledgeGraph.from_triples(
    **{split: bare.triples(split) for split in ("train", "valid", "test")},
    entity_labels=["é", "0", "'", "a b", *(f"Q{i}" for i in range(ENTITIES - 4))],
    relation_labels=["P 1", "", "知"],
)


def _pairs(rows: Floats) -> NDArray[np.complex128]:
    return rows[..., 0::2] + 1j * rows[..., 1::2]


def _complex(h: Floats, r: Floats, t: Floats) -> Floats:
    return (_pairs(h) * _pairs(r) * _pairs(t).conj()).real.sum(-1)


def _simple(h: Floats, r: Floats, t: Floats) -> Floats:
    return (h * r * t[..., np.arange(t.shape[-1]) ^ 1]).sum(-1)


def _rotate(h: Floats, r: Floats, t: Floats) -> Floats:
    turned = _pairs(h) * np.exp(1j * r[..., : r.shape[-1] // 2])
    return MARGIN - np.abs(turned - _pairs(t)).sum(-1)


def _quate(h: Floats, r: Floats, t: Floats) -> Floats:
    (a, b, c, d), (e, f, g, k), (w, x, y, z) = ([rows[..., i::4] for i in range(4)] for rows in (h, r, t))
    real, i = a * e - b * f - c * g - d * k, a * f + b * e + c * k - d * g
    j, last = a * g - b * k + c * e + d * f, a * k + b * g - c * f + d * e
    length = np.sqrt(e * e + f * f + g * g + k * k)
    return ((real * w + i * x + j * y + last * z) / (length + 1e-15)).sum(-1)


FORMULAS: dict[str, Callable[[Floats, Floats, Floats], Floats]] = {
    "TransE": lambda h, r, t: MARGIN - np.abs(h + r - t).sum(-1),
    "DistMult": lambda h, r, t: (h * r * t).sum(-1),
    "ComplEx": _complex,
    "SimplE": _simple,
    "RotatE": _rotate,
    "QuatE": _quate,
}
"""The functions ``forward`` of GraphVite's models, in float64, along the last axis."""


def _drawn(entities: int, relations: int, model: str = "") -> tuple[Floats, Floats]:
    """Multiples of 1/4, so that sums are exact, and some scores tie; roots and angles would break ties at random."""
    draw = np.random.default_rng(5)
    if model in ("RotatE", "QuatE"):
        entity, relation = (draw.normal(size=(rows, WIDTH)).astype(np.float32) for rows in (entities, relations))
        return entity.astype(np.float64), relation.astype(np.float64)
    return draw.integers(-8, 9, (entities, WIDTH)) / 4, draw.integers(-8, 9, (relations, WIDTH)) / 4


def _assert_ranks(path: Path, among: KnowledgeGraph, model: str, entities: Floats, relations: Floats) -> None:
    """The rows of the tables are in the order of the graph's ids."""
    h, r, t = entities[:, None, None], relations[None, :, None], entities[None, None, :]
    tails = FORMULAS[model](h, r, t)
    assert rows_of(rank(path, among)) == brute_force(Matrix(np.stack([tails.transpose(2, 1, 0), tails])), among)


@pytest.mark.parametrize("protocol", [4, 5])
@pytest.mark.parametrize("model", FORMULAS)
def test_ranks_are_those_of_the_formula(tmp_path: Path, model: str, protocol: int) -> None:
    entities, relations = _drawn(ENTITIES, RELATIONS, model)
    rows, kinds = np.random.default_rng(1).permutation(ENTITIES), np.array([2, 0, 1])
    names = graph.entity_label(rows), graph.relation_label(kinds)
    path = save_graphvite(tmp_path / "model.pkl", entities, relations, names, protocol)
    output = tmp_path / ("model.npz" if protocol == 4 else "model.safetensors")
    convert_graphvite(path, output, model=model.lower(), margin=MARGIN)
    _assert_ranks(output, graph, model, entities[np.argsort(rows)], relations[np.argsort(kinds)])
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(["model.pkl", output.name])


def test_ranks_on_a_real_graph(data: Path, tmp_path: Path) -> None:
    real = load_graph(data / "graphs" / "umls")
    names = real.entity_label(range(real.num_entities)), real.relation_label(range(real.num_relations))
    for model in ("SimplE", "RotatE", "QuatE"):
        entities, relations = _drawn(real.num_entities, real.num_relations, model)
        path = save_graphvite(tmp_path / "model.pkl", entities, relations, names)
        convert_graphvite(path, tmp_path / f"{model}.npz", model=model, margin=MARGIN)
        _assert_ranks(tmp_path / f"{model}.npz", real, model, entities, relations)


def _names() -> tuple[list[str], list[str]]:
    return graph.entity_label(range(ENTITIES)), graph.relation_label(range(RELATIONS))


def _saved(folder: Path, change: Callable[[Any], Any] = lambda model: None) -> Path:
    return save_graphvite(folder / "model.pkl", *_drawn(ENTITIES, RELATIONS), _names(), change=change)


def test_saved_hyperparameters_are_used(tmp_path: Path) -> None:
    def with_hyperparameters(model: Any) -> None:
        model.solver.model, model.solver.margin, model.solver.num_partition = "RotatE", 9.0, 4
        model.solver.optimizer = type(model)()
        model.solver.optimizer.schedule = "linear"

    path = _saved(tmp_path, with_hyperparameters)
    convert_graphvite(path, tmp_path / "a.npz")
    header = json.loads(list_arrays(tmp_path / "a.npz").header or "")
    assert (header["model"], header["gamma"]) == ("RotatE", 9.0)
    convert_graphvite(path, tmp_path / "b.npz", model="rotate", margin=MARGIN)
    assert json.loads(list_arrays(tmp_path / "b.npz").header or "")["gamma"] == MARGIN
    with pytest.raises(UsageError, match="`model` is 'TransE', but the file says 'RotatE'"):
        convert_graphvite(path, tmp_path / "c.npz", model="TransE")


def test_the_model_must_be_named(tmp_path: Path) -> None:
    path = _saved(tmp_path)
    with pytest.raises(UsageError) as caught:
        convert_graphvite(path, tmp_path / "a.npz")
    assert caught.value.remedy == "give `model`: TransE, DistMult, ComplEx, SimplE, RotatE, QuatE"
    with pytest.raises(UsageError, match="no model is called 'RotateE'; nearest: RotatE"):
        convert_graphvite(path, tmp_path / "a.npz", model="RotateE")


def test_nothing_in_a_file_is_run(tmp_path: Path) -> None:
    harm = tmp_path / "harm"

    class Harmful:
        def __reduce__(self) -> Any:
            return os.system, (f"touch '{harm}'",)

    def beside(model: Any) -> None:
        model.solver.note = Harmful()

    path = _saved(tmp_path, beside)
    with pytest.raises(DataError) as caught:
        convert_graphvite(path, tmp_path / "a.npz", model="TransE")
    assert caught.value.problems == [f"it names '{os.system.__module__}.system', which GraphVite does not save"]
    convert_graphvite(path, tmp_path / "a.npz", model="TransE", margin=MARGIN, trust_pickle=True)
    _assert_ranks(tmp_path / "a.npz", graph, "TransE", *_drawn(ENTITIES, RELATIONS))
    assert not harm.exists()


def _ruined(**values: Any) -> Callable[[Any], Any]:
    def change(model: Any) -> None:
        for key, value in values.items():
            part, name = key.split("__")
            setattr(model[part], name, value)

    return change


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            lambda model: model.clear(),
            [
                "'solver.entity_embeddings' is None, expected a matrix of numbers",
                "'graph.id2entity' is None, expected a list of names",
                "'solver.relation_embeddings' is None, expected a matrix of numbers",
                "'graph.id2relation' is None, expected a list of names",
            ],
        ),
        (
            _ruined(graph__id2entity=["a", "b"], solver__relation_embeddings=np.ones(3, np.float32)),
            [
                "'graph.id2entity' and 'graph.entity2id' contradict each other",
                "2 names, but 19 rows in 'solver.entity_embeddings'",
                "'solver.relation_embeddings' is numpy._core.numeric._frombuffer, expected a matrix of numbers",
            ],
        ),
        (
            _ruined(graph__id2entity=[1, 2], graph__id2relation=["a", 1], solver__margin=math.inf),
            [
                "'graph.id2entity' is a list, expected a list of names",
                "'graph.id2relation' is a list, expected a list of names",
                "'solver.margin' is inf, expected a number",
            ],
        ),
        (
            _ruined(solver__entity_embeddings=np.ones((19, 8), np.int64)),
            ["'solver.entity_embeddings' is numpy._core.numeric._frombuffer, expected a matrix of numbers"],
        ),
    ],
)
def test_contradictions_are_all_named(tmp_path: Path, change: Callable[[Any], Any], expected: list[str]) -> None:
    path = _saved(tmp_path, change)
    with pytest.raises(DataError) as caught:
        convert_graphvite(path, tmp_path / "a.npz", model="TransE")
    assert [problem.replace(".core.", "._core.") for problem in caught.value.problems] == expected
    assert not (tmp_path / "a.npz").exists()


@pytest.mark.parametrize(("model", "width"), [("ComplEx", 7), ("QuatE", 6), ("TransE", None)])
def test_coordinates_that_do_not_fit(tmp_path: Path, model: str, width: int | None) -> None:
    path = save_graphvite(tmp_path / "model.pkl", np.ones((19, width or 8)), np.ones((3, width or 5)), _names())
    with pytest.raises(DataError, match="coordinates of an entity and"):
        convert_graphvite(path, tmp_path / "a.npz", model=model)


def test_damaged_files(tmp_path: Path) -> None:
    whole = _saved(tmp_path).read_bytes()
    path = tmp_path / "damaged.pkl"
    for length in range(0, len(whole), 41):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError) as caught:
            convert_graphvite(path, tmp_path / "a.npz", model="TransE")
        assert str(path) in caught.value.title
