import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.predict.adapters.rotate_checkpoint import is_rotate_checkpoint, open_rotate_checkpoint
from kgprobe.predict.scorers import SIDES, Dot, GroupNorm

Array = NDArray[Any]

ENTITIES, RELATIONS, HIDDEN, GAMMA = 5, 2, 3, 9.3

graph = KnowledgeGraph.from_triples(
    train=[[0, 0, 1], [1, 1, 4]],
    name="tiny",
    entity_labels=["ada", "bob", "cyd", "dan", "eve"],
    relation_labels=["knows", "likes"],
)


def _save(
    folder: Path, model: str, *, double_entity: bool, double_relation: bool, **options: Any
) -> tuple[Array, Array]:
    """A folder as the code base saves it: tables drawn from U(-a, a), a = (gamma + 2) / d, and all its options."""
    rng = np.random.default_rng(1)
    reach = (GAMMA + 2.0) / HIDDEN
    entity = rng.uniform(-reach, reach, (ENTITIES, HIDDEN * (1 + double_entity))).astype(np.float32)
    relation = rng.uniform(-reach, reach, (RELATIONS, HIDDEN * (1 + double_relation))).astype(np.float32)
    config = {
        "cuda": True,
        "do_train": True,
        "countries": False,
        "regions": None,
        "data_path": "data/tiny",
        "model": model,
        "double_entity_embedding": double_entity,
        "double_relation_embedding": double_relation,
        "negative_sample_size": 256,
        "hidden_dim": HIDDEN,
        "gamma": GAMMA,
        "regularization": 0.0,
        "learning_rate": 5e-05,
        "init_checkpoint": None,
        "save_path": "models/tiny",
        "nentity": ENTITIES,
        "nrelation": RELATIONS,
    }
    folder.mkdir(exist_ok=True)
    np.save(folder / "entity_embedding", entity)
    np.save(folder / "relation_embedding", relation)
    (folder / "config.json").write_text(json.dumps(config | options), encoding="utf-8")
    return entity.astype(np.float64), relation.astype(np.float64)


def _parts(vector: Array) -> list[complex]:
    half = len(vector) // 2
    return [complex(a, b) for a, b in zip(vector[:half], vector[half:], strict=True)]


def _trans_e(h: Array, r: Array, t: Array) -> float:
    return GAMMA - sum(abs(a + b - c) for a, b, c in zip(h, r, t, strict=True))


def _dist_mult(h: Array, r: Array, t: Array) -> float:
    return sum(a * b * c for a, b, c in zip(h, r, t, strict=True))


def _compl_ex(h: Array, r: Array, t: Array) -> float:
    return sum((a * b * c.conjugate()).real for a, b, c in zip(_parts(h), _parts(r), _parts(t), strict=True))


def _rotat_e(h: Array, r: Array, t: Array) -> float:
    phases = r / ((GAMMA + 2.0) / HIDDEN / math.pi)
    turned = [a * complex(math.cos(b), math.sin(b)) for a, b in zip(_parts(h), phases, strict=True)]
    return GAMMA - sum(abs(a - b) for a, b in zip(turned, _parts(t), strict=True))


MODELS = {
    "TransE": (_trans_e, False, False, GroupNorm(1, GAMMA)),
    "TransE doubled": (_trans_e, True, True, GroupNorm(1, GAMMA)),
    "DistMult": (_dist_mult, False, False, Dot()),
    "ComplEx": (_compl_ex, True, True, Dot()),
    "RotatE": (_rotat_e, True, False, GroupNorm(2, GAMMA)),
}


def _assert_scores(scorer: Any, definition: Any, entity: Array, relation: Array) -> None:
    expected = np.array([[[definition(h, r, t) for t in entity] for r in relation] for h in entity])
    given, asked = (index.ravel() for index in np.indices((ENTITIES, RELATIONS)))
    for side in SIDES:
        queries, table = scorer.encode_queries(side, given, asked), scorer.candidates(side)
        pairs = [np.repeat(queries, len(table), axis=0), np.tile(table, (len(queries), 1))]
        found = scorer.similarity.canonical(*pairs).reshape(ENTITIES, RELATIONS, ENTITIES)
        as_triples = found if side == "tail" else found.transpose(2, 1, 0)
        np.testing.assert_allclose(as_triples, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("model", MODELS)
def test_scores_are_those_of_the_code_base(tmp_path: Path, model: str) -> None:
    definition, double_entity, double_relation, similarity = MODELS[model]
    name = model.split()[0]
    tables = _save(tmp_path, name, double_entity=double_entity, double_relation=double_relation)
    assert is_rotate_checkpoint(tmp_path)
    found, scorer, settings = open_rotate_checkpoint(tmp_path, graph)
    assert (found, scorer.similarity) == (name, similarity)  # type: ignore[union-attr]
    assert settings["source"] == tmp_path.name
    assert {key: settings[key] for key in ("model", "gamma", "hidden_dim")} == {
        "model": name,
        "gamma": GAMMA,
        "hidden_dim": HIDDEN,
    }
    assert json.loads(json.dumps(settings)) == settings
    _assert_scores(scorer, definition, *tables)


def test_phases_of_ogb_have_the_right_pi(tmp_path: Path) -> None:
    """OGB's copy of the code has a digit of pi that the RotatE code base has not, and its options name the dataset."""
    places = {"here": {}, "ogb": {"dataset": "ogbl-wikikg2", "print_on_screen": False}}
    for (name, options), pi in zip(places.items(), (3.14159262358979323846, math.pi), strict=True):
        _, relation = _save(tmp_path / name, "RotatE", double_entity=True, double_relation=False, **options)
        relation *= 2.0**23  # so that the digit matters
        np.save(tmp_path / name / "relation_embedding", relation.astype(np.float32))
        reach = float(np.float32((float(np.float32(GAMMA)) + 2.0) / HIDDEN))
        _, scorer, _ = open_rotate_checkpoint(tmp_path / name, graph)
        found = scorer.relations[:, 0::2]  # type: ignore[union-attr]
        np.testing.assert_allclose(found, np.cos(relation / (reach / pi)), atol=1e-6)


def test_rows_are_matched_by_the_dictionaries_of_the_data(tmp_path: Path) -> None:
    entity, relation = _save(tmp_path, "RotatE", double_entity=True, double_relation=False)
    rows, relations = np.array([4, 0, 3, 1, 2]), np.array([1, 0])
    for kind, labels in (("entities", graph.entity_label(rows)), ("relations", graph.relation_label(relations))):
        lines = [f"{i}\t{label}\n" for i, label in enumerate(labels)]
        (tmp_path / f"{kind}.dict").write_text("".join(lines), encoding="utf-8")
    _, scorer, settings = open_rotate_checkpoint(tmp_path, graph)
    assert settings["matched by name"] == ["entities", "relations"]
    _assert_scores(scorer, _rotat_e, entity[np.argsort(rows)], relation[np.argsort(relations)])


def test_a_resumed_run_is_noted(tmp_path: Path) -> None:
    _save(tmp_path, "RotatE", double_entity=True, double_relation=False, init_checkpoint="models/before")
    _, _, settings = open_rotate_checkpoint(tmp_path, graph)
    assert settings["notes"] == [
        "a resumed run: config.json has the gamma of its own options, not that of the run before"
    ]


def _problems(folder: Path, among: KnowledgeGraph = graph) -> list[str]:
    with pytest.raises(DataError) as caught:
        open_rotate_checkpoint(folder, among)
    assert str(folder) in caught.value.title
    assert caught.value.remedy
    return caught.value.problems


def test_missing_files(tmp_path: Path) -> None:
    assert not is_rotate_checkpoint(tmp_path)
    assert _problems(tmp_path) == [
        "entity_embedding.npy: no such file",
        "relation_embedding.npy: no such file",
        "config.json: no such file",
    ]
    _save(tmp_path, "ComplEx", double_entity=True, double_relation=True)
    (tmp_path / "entity_embedding.npy").unlink()
    assert is_rotate_checkpoint(tmp_path)
    assert _problems(tmp_path) == ["entity_embedding.npy: no such file"]


def test_damaged_files_are_all_named(tmp_path: Path) -> None:
    _save(tmp_path, "RotatE", double_entity=True, double_relation=False)
    (tmp_path / "entity_embedding.npy").write_bytes((tmp_path / "entity_embedding.npy").read_bytes()[:-4])
    (tmp_path / "relation_embedding.npy").write_bytes(b"\x80\x04N.")
    (tmp_path / "config.json").write_text('{"model": "RotatE", ', encoding="utf-8")
    (tmp_path / "entities.dict").write_text("0 ada\n", encoding="utf-8")
    problems = _problems(tmp_path)
    assert problems[:2] == [
        "entity_embedding.npy: truncated: an array of 248 bytes has only 244",
        "relation_embedding.npy: it is a pickle",
    ]
    assert problems[2].startswith("config.json: Expecting property name")
    assert problems[3].startswith("entities.dict, line 1: 1 field, expected id<TAB>label")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"model": "RotateE"}, ["config.json: no model is called 'RotateE'; nearest: RotatE"]),
        ({"model": None}, ["config.json: no model is called 'None'; there are: TransE, DistMult, ComplEx, RotatE"]),
        (
            {"model": "pRotatE"},
            ["config.json: pRotatE is not supported: it compares angles, and its modulus is not saved in these arrays"],
        ),
        (
            {"gamma": "9", "hidden_dim": 0},
            [
                "config.json: 'gamma' is '9', expected a number above -2",
                "config.json: 'hidden_dim' is 0, expected a positive integer",
            ],
        ),
        ({"hidden_dim": 4}, ["entity_embedding.npy: one row has shape (6,), expected (8,) by config.json"]),
        (
            {"double_entity_embedding": False},
            ["entity_embedding.npy: one row has shape (6,), expected (3,) by config.json"],
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_options_that_cannot_be_used(tmp_path: Path, options: dict[str, Any], expected: list[str]) -> None:
    _save(tmp_path, "RotatE", double_entity=True, double_relation=False)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "config.json").write_text(json.dumps(config | options), encoding="utf-8")
    assert _problems(tmp_path) == expected


def test_options_that_are_no_object(tmp_path: Path) -> None:
    _save(tmp_path, "RotatE", double_entity=True, double_relation=False)
    (tmp_path / "config.json").write_text("[]", encoding="utf-8")
    assert _problems(tmp_path) == ["config.json: JSON of type list, expected an object"]


def test_another_graph(tmp_path: Path) -> None:
    _save(tmp_path, "RotatE", double_entity=True, double_relation=False)
    other = KnowledgeGraph.from_triples(train=[[0, 2, 7]])
    assert _problems(tmp_path, other) == [
        "entity: 5 rows, but there are 8 entities",
        "relation: 2 rows, but there are 3 relations",
    ]


def test_arrays_of_another_model(tmp_path: Path) -> None:
    _save(tmp_path, "RotatE", double_entity=True, double_relation=True)
    assert _problems(tmp_path) == ["relation: one row has shape (6,), expected (3,)"]


def test_numbers_that_are_none(tmp_path: Path) -> None:
    entity, relation = _save(tmp_path, "RotatE", double_entity=True, double_relation=False)
    entity[3, 1], relation[1, 0] = np.nan, np.inf
    np.save(tmp_path / "entity_embedding", entity)
    np.save(tmp_path / "relation_embedding", relation)
    said = "rows hold NaN, infinity or numbers beyond float32"
    assert _problems(tmp_path) == [
        f"entity_embedding.npy: 1 {said}: 3 (counted from 0)",
        f"relation_embedding.npy: 1 {said}: 1 (counted from 0)",
    ]
