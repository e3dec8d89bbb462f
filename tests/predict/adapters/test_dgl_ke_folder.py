"""DGL-KE folders: those that the library wrote, and others of the same layout from a writer in this file."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph, load_graph
from kgprobe.predict import rank
from kgprobe.predict import stored_arrays as stored_arrays_module
from kgprobe.predict.adapters.dgl_ke_folder import MODELS, is_dgl_ke, open_dgl_ke
from kgprobe.predict.scorers import SIDES, RelationEmbeddingScorer
from kgprobe.predict.stored_arrays import StoredTable
from ranking import Matrix, brute_force, rows_of

Array = NDArray[Any]

SAVED = Path(__file__).parents[2] / "saved_models" / "dgl_ke"

IN_PACKAGE = [model for model in MODELS if model != "SimplE"]

DOUBLED = {"ComplEx": (True, True), "RotatE": (True, False), "SimplE": (True, True)}

GAMMA = 6.5

ODD = ["ada", 'b"ob', "cyd,d", "dän", "e e", "#f", "0", "1", "'", "a|b", "NaN", "\N{DOG FACE}", "-1"]


def formula(model: str, h: Array, r: Array, t: Array, hidden: int, matrix: Array | None = None) -> Array:
    """The score of DGL-KE's function for positive triples, in float64, for arrays [..., dimension]."""
    half = h.shape[-1] // 2
    h1, h2, t1, t2 = h[..., :half], h[..., half:], t[..., :half], t[..., half:]
    if model in ("TransE", "TransE_l2"):
        return GAMMA - np.sqrt(((h + r - t) ** 2).sum(-1))
    if model == "TransE_l1":
        return GAMMA - np.abs(h + r - t).sum(-1)
    if model == "TransR":
        p = matrix.reshape(*matrix.shape[:-1], h.shape[-1], r.shape[-1])  # type: ignore[union-attr]
        moved = [np.einsum("...a,...ab->...b", side, p) for side in np.broadcast_arrays(h, t)]
        return GAMMA - np.abs(moved[0] + r - moved[1]).sum(-1)
    if model == "RESCAL":
        p = r.reshape(*r.shape[:-1], h.shape[-1], h.shape[-1])
        return (h * np.einsum("...ab,...b->...a", p, t)).sum(-1)
    if model == "DistMult":
        return (h * r * t).sum(-1)
    if model == "RotatE":
        phase = r / ((GAMMA + 2.0) / hidden / np.pi)
        turned = (h1 + 1j * h2) * np.exp(1j * phase)
        return GAMMA - np.abs(turned - (t1 + 1j * t2)).sum(-1)
    r1, r2 = r[..., :half], r[..., half:]
    if model == "ComplEx":
        return ((h1 * r1 - h2 * r2) * t1 + (h1 * r2 + h2 * r1) * t2).sum(-1)
    assert model == "SimplE"
    return np.clip((h1 * r1 * t2 + t1 * r2 * h2).sum(-1) / 2, -20, 20)


def all_scores(model: str, tables: dict[str, Array], hidden: int) -> Array:
    """The scores of all triples [heads, relations, tails]."""
    entity, relation = tables["entity"].astype(np.float64), tables["relation"].astype(np.float64)
    matrix = tables["projection"].astype(np.float64)[:, None] if model == "TransR" else None
    rows = [
        formula(model, h, relation[:, None], entity, hidden, matrix) for h in entity
    ]  # a head at a time, for bounded memory
    return np.array(rows)


def expected(scores: Array, graph: KnowledgeGraph) -> Any:
    """Filtered ranks by loops over scores [heads, relations, tails]."""
    return brute_force(Matrix(np.stack([scores.transpose(2, 1, 0), scores])), graph)


def drawn(model: str, graph: KnowledgeGraph, hidden: int, seed: int = 0) -> dict[str, Array]:
    """Tables in the order of the ids, with equal rows; on a grid where scores are sums of products."""
    rng = np.random.default_rng(seed)
    ent, rel = (hidden * (1 + doubled) for doubled in DOUBLED.get(model, (False, False)))

    def values(*shape: int) -> Array:
        if model in ("TransE", "TransE_l2", "RotatE"):
            return rng.uniform(-2, 2, shape).astype(np.float32)
        return rng.integers(-8, 9, shape).astype(np.float32) / (1 if model == "SimplE" else 8)

    tables = {
        "entity": values(graph.num_entities, ent),
        "relation": values(graph.num_relations, rel * ent if model == "RESCAL" else rel),
    }
    if model == "TransR":
        tables["projection"] = values(graph.num_relations, ent * rel)
    tables["entity"][graph.num_entities // 2] = tables["entity"][1]
    return tables


def write(
    folder: Path,
    model: str,
    tables: dict[str, Array],
    hidden: int,
    names: tuple[list[str], list[str]] | None = None,
    change: Callable[[Array], Array] = lambda table: table,
    **options: Any,
) -> Path:
    """A folder in the layout of DGL-KE's master branch, whose config.json has every option of the command line."""
    folder.mkdir(parents=True, exist_ok=True)
    double_ent, double_rel = DOUBLED.get(model, (False, False))
    config = {
        "model_name": model,
        "data_path": "data",
        "dataset": "tiny",
        "format": "raw_udd_hrt",
        "delimiter": "\t",
        "save_path": str(folder),
        "hidden_dim": hidden,
        "gamma": GAMMA,
        "double_ent": double_ent,
        "double_rel": double_rel,
        "neg_sample_size": 256,
        "emp_file": "entities.tsv",
        "rmap_file": "relations.tsv",
    }
    for name, table in tables.items():
        ending = "projection" if name == "projection" else f"_{name}"
        np.save(folder / f"tiny_{model}{ending}", change(table))
    for kind, labels in zip(("entities", "relations"), names or (), strict=False):
        lines = [f"{i}\t{label}\n" for i, label in enumerate(labels)]
        (folder / f"{kind}.tsv").write_text("".join(lines), encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(config | options, indent=4), encoding="utf-8")
    return folder


def shuffled(
    tables: dict[str, Array], graph: KnowledgeGraph, seed: int = 1
) -> tuple[dict[str, Array], tuple[list[str], list[str]]]:
    """The tables with their rows in another order, and the names of these."""
    rng = np.random.default_rng(seed)
    orders = {"entity": rng.permutation(graph.num_entities), "relation": rng.permutation(graph.num_relations)}
    orders["projection"] = orders["relation"]
    moved = {name: table[orders[name]] for name, table in tables.items()}
    return moved, (graph.entity_label(orders["entity"]), graph.relation_label(orders["relation"]))


@pytest.fixture
def odd() -> KnowledgeGraph:
    """A random graph whose names have quotes, delimiters, digits, and letters beyond ASCII."""
    rng = np.random.default_rng(7)

    def triples(n: int) -> Array:
        return np.column_stack([rng.integers(0, size, n) for size in (len(ODD), 3, len(ODD))])

    return KnowledgeGraph.from_triples(
        train=triples(60),
        valid=triples(10),
        test=triples(25),
        name="odd",
        entity_labels=ODD,
        relation_labels=["knows", "lives in", "is,a"],
        num_entities=len(ODD),
        num_relations=3,
    )


@pytest.fixture(scope="module")
def library_graph() -> KnowledgeGraph:
    return load_graph(SAVED / "graph")


def saved_order(model: str, graph: KnowledgeGraph) -> tuple[list[int], list[int]]:
    """The row of each entity and relation of the graph in the folders of the library."""
    orders = []
    for kind, labels in (("entities", graph.entity_label(range(8))), ("relations", graph.relation_label(range(3)))):
        lines = (SAVED / f"{model}_tiny_0" / f"{kind}.tsv").read_text(encoding="utf-8").splitlines()
        rows = {name: int(row) for row, name in (line.split("\t") for line in lines)}
        orders.append([rows[label] for label in labels])
    return orders[0], orders[1]


def library_scores(model: str, graph: KnowledgeGraph, kind: str = "triples") -> Array:
    """The scores that the library computed [heads, relations, tails], by ids of the graph."""
    entities, relations = saved_order(model, graph)
    with np.load(SAVED / "scores.npz") as scores:
        return scores[f"{model}_{kind}"][np.ix_(entities, relations, entities)]


def scores_of(scorer: Any, graph: KnowledgeGraph) -> dict[str, Array]:
    """The scores of all triples [heads, relations, tails] that a scorer gives, for queries of either side."""
    found = {}
    for side in SIDES:
        rows = np.empty((graph.num_entities, graph.num_relations, graph.num_entities))
        for relation in range(graph.num_relations):
            given = np.arange(graph.num_entities)
            queries = scorer.encode_queries(side, given, np.full(len(given), relation))
            by_relation = isinstance(scorer, RelationEmbeddingScorer)
            table = scorer.candidates_for(side, relation) if by_relation else scorer.candidates(side)
            pairs = np.repeat(queries, len(table), axis=0), np.tile(table[:], (len(queries), 1))
            rows[:, relation] = scorer.similarity.canonical(*pairs).reshape(len(given), len(given))
        found[side] = rows if side == "tail" else rows.transpose(2, 1, 0)
    return found


@pytest.mark.parametrize("model", IN_PACKAGE)
def test_scores_of_the_library(model: str, library_graph: KnowledgeGraph) -> None:
    folder = SAVED / f"{model}_tiny_0"
    assert is_dgl_ke(folder)
    name, scorer, settings = open_dgl_ke(folder, library_graph)
    assert name == settings["model"] == model
    assert settings["matched by name"] == ["entities", "relations"]
    assert "notes" not in settings
    for found in scores_of(scorer, library_graph).values():
        np.testing.assert_allclose(found, library_scores(model, library_graph), rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("model", IN_PACKAGE)
def test_ranks_of_the_scores_of_the_library(model: str, library_graph: KnowledgeGraph) -> None:
    scores = library_scores(model, library_graph).astype(np.float64)
    assert rows_of(rank(SAVED / f"{model}_tiny_0", library_graph)) == expected(scores, library_graph)


@pytest.mark.parametrize("model", IN_PACKAGE)
def test_the_library_scores_tail_candidates_of_two_models_by_another_function(
    model: str, library_graph: KnowledgeGraph
) -> None:
    triples, tails = (library_scores(model, library_graph, kind) for kind in ("triples", "tails"))
    if model not in ("RESCAL", "TransR"):
        np.testing.assert_allclose(tails, triples, rtol=1e-4, atol=2e-5)
        return
    assert np.abs(tails - triples).max() > 0.1
    folder = SAVED / f"{model}_tiny_0"
    files = {name: folder / f"tiny_{model}{ending}.npy" for name, ending in ENDINGS.items()}
    stored = {name: np.load(file).astype(np.float64) for name, file in files.items() if file.exists()}
    entities, relations = saved_order(model, library_graph)
    e, r = stored["entity"][entities], stored["relation"][relations]
    if model == "RESCAL":  # the matrix is transposed
        other = np.einsum("hb,rab,ta->hrt", e, r.reshape(3, 4, 4), e)
    else:  # the translation has the other sign
        moved = np.einsum("ea,rab->reb", e, stored["projection"][relations].reshape(3, 4, 4))
        difference = (moved - r[:, None])[:, :, None] - moved[:, None]
        other = (GAMMA - np.abs(difference).sum(-1)).transpose(1, 0, 2)
    np.testing.assert_allclose(tails, other, rtol=1e-4, atol=2e-5)


ENDINGS = {"entity": "_entity", "relation": "_relation", "projection": "projection"}


@pytest.mark.parametrize("model", MODELS)
def test_ranks_of_a_graph_with_odd_names(model: str, odd: KnowledgeGraph, tmp_path: Path) -> None:
    tables = drawn(model, odd, 4)
    moved, names = shuffled(tables, odd)
    folder = write(tmp_path / "m", model, moved, 4, names)
    scores = all_scores(model, tables, 4)
    assert rows_of(rank(folder, odd)) == expected(scores, odd)
    _, scorer, _ = open_dgl_ke(folder, odd)
    if model != "SimplE":  # whose scores are clamped when they are compared
        for found in scores_of(scorer, odd).values():
            np.testing.assert_allclose(found, scores, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("model", MODELS)
def test_ranks_of_a_real_graph(model: str, tmp_path: Path, data: Path) -> None:
    graph = load_graph(data / "graphs" / "umls")
    part = KnowledgeGraph.from_triples(
        train=graph.triples("train"),
        valid=graph.triples("valid"),
        test=graph.triples("test")[::4],
        num_entities=graph.num_entities,
        num_relations=graph.num_relations,
    )
    tables = drawn(model, part, 6, seed=3)
    folder = write(tmp_path / "m", model, tables, 6)
    assert rows_of(rank(folder, part)) == expected(all_scores(model, tables, 6), part)


@pytest.mark.parametrize("model", MODELS)
def test_tables_that_stay_in_their_files(
    model: str, odd: KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved, names = shuffled(drawn(model, odd, 4), odd)
    folder = write(tmp_path / "m", model, moved, 4, names)
    in_memory = rows_of(rank(folder, odd))
    monkeypatch.setattr(stored_arrays_module, "LARGE_BYTES", 0)
    _, scorer, _ = open_dgl_ke(folder, odd)
    table = scorer.entities if model == "TransR" else scorer.heads  # type: ignore[union-attr]
    assert isinstance(table, StoredTable)
    assert scorer.stored_bytes == 4 * math.prod(table.shape)  # type: ignore[union-attr]
    assert rows_of(rank(folder, odd)) == in_memory


def test_simple_has_many_ties_at_its_limits(odd: KnowledgeGraph) -> None:
    ties = [equal for _, equal, _ in expected(all_scores("SimplE", drawn("SimplE", odd, 4), 4), odd).values()]
    assert sum(equal > 1 for equal in ties) > len(ties) / 4


@pytest.mark.parametrize("change", ["float16", "float64", ">f4", "fortran", ">f8"])
def test_other_formats_of_numbers(change: str, odd: KnowledgeGraph, tmp_path: Path) -> None:
    def changed(table: Array) -> Array:
        return np.asfortranarray(table) if change == "fortran" else table.astype(change)

    for model in ("DistMult", "TransR", "RESCAL"):
        tables = drawn(model, odd, 4)
        folder = write(tmp_path / model, model, tables, 4, change=changed)
        assert rows_of(rank(folder, odd)) == expected(all_scores(model, tables, 4), odd)


def test_names_beside_the_data_of_the_training(odd: KnowledgeGraph, tmp_path: Path) -> None:
    tables = drawn("DistMult", odd, 4)
    moved, names = shuffled(tables, odd)
    ranks = expected(all_scores("DistMult", tables, 4), odd)
    trained_on = tmp_path / "kg"
    for number, place in enumerate((trained_on, trained_on / "tiny")):
        folder = write(tmp_path / f"m{number}", "DistMult", moved, 4, names, data_path=str(trained_on))
        place.mkdir(exist_ok=True)
        for kind in ("entities.tsv", "relations.tsv"):
            (folder / kind).rename(place / kind)
        assert rows_of(rank(folder, odd)) == ranks
        for kind in ("entities.tsv", "relations.tsv"):
            (place / kind).unlink()
    _, _, settings = open_dgl_ke(folder, odd)
    assert "matched by name" not in settings


def test_names_beside_the_checkpoint_come_first(odd: KnowledgeGraph, tmp_path: Path) -> None:
    tables = drawn("DistMult", odd, 4)
    moved, names = shuffled(tables, odd)
    folder = write(tmp_path / "m", "DistMult", moved, 4, names, data_path=str(tmp_path))
    (tmp_path / "entities.tsv").write_text("0\tstranger\n", encoding="utf-8")
    assert rows_of(rank(folder, odd)) == expected(all_scores("DistMult", tables, 4), odd)


def test_options_of_the_published_version(odd: KnowledgeGraph, tmp_path: Path) -> None:
    tables = drawn("RotatE", odd, 4)
    moved, names = shuffled(tables, odd)
    folder = write(tmp_path / "m", "RotatE", moved, 4, names)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    names_then = {"model_name": "model", "hidden_dim": "emb_size", "emp_file": "emap_file"}
    old = {then: config.pop(now) for now, then in names_then.items()}
    del config["data_path"], config["delimiter"], config["double_rel"]
    (folder / "config.json").write_text(json.dumps(config | old), encoding="utf-8")
    assert rows_of(rank(folder, odd)) == expected(all_scores("RotatE", tables, 4), odd)


@pytest.mark.parametrize("style", ["semicolon", "freebase"])
def test_other_files_of_names(style: str, odd: KnowledgeGraph, tmp_path: Path) -> None:
    tables = drawn("DistMult", odd, 4)
    moved, names = shuffled(tables, odd)
    files = {"semicolon": ("e.csv", "r.csv"), "freebase": ("entity2id.txt", "relation2id.txt")}[style]
    options = {"emp_file": files[0], "rmap_file": files[1], "delimiter": ";" if style == "semicolon" else "\t"}
    folder = write(tmp_path / "m", "DistMult", moved, 4, **options)
    for file, labels in zip(files, names, strict=True):
        if style == "semicolon":
            lines = [f"{i};{label}\n" for i, label in enumerate(labels)]
        else:
            lines = [f"{len(labels)}\n", *(f"{label}\t{i}\n" for i, label in enumerate(labels))]
        (folder / file).write_text("".join(lines), encoding="utf-8")
    assert rows_of(rank(folder, odd)) == expected(all_scores("DistMult", tables, 4), odd)


def test_the_margin_scales_the_phases_of_rotate(odd: KnowledgeGraph, tmp_path: Path) -> None:
    """The library's dglke_predict leaves the margin out, and with it scales them by another factor."""
    tables = drawn("RotatE", odd, 4)
    ranks = [rows_of(rank(write(tmp_path / str(g), "RotatE", tables, 4, gamma=g), odd)) for g in (GAMMA, 0.0)]
    assert ranks[0] == expected(all_scores("RotatE", tables, 4), odd) != ranks[1]


@pytest.mark.parametrize(
    ("options", "noted"),
    [
        ({}, False),
        ({"ip_config": "ip.txt"}, True),
        ({"emp_file": None}, True),
        ({"emp_file": None, "dataset": "wikikg90M"}, False),
    ],
)
def test_runs_on_several_machines_are_noted(
    options: dict[str, Any], noted: bool, odd: KnowledgeGraph, tmp_path: Path
) -> None:
    folder = write(tmp_path / "m", "DistMult", drawn("DistMult", odd, 4), 4, **options)
    for path in folder.glob("tiny_*"):
        path.rename(folder / path.name.replace("tiny", options.get("dataset", "tiny")))
    _, _, settings = open_dgl_ke(folder, odd)
    assert ("notes" in settings) == noted
    assert json.loads(json.dumps(settings)) == settings


def problems(folder: Path, graph: KnowledgeGraph) -> list[str]:
    with pytest.raises(DataError) as caught:
        open_dgl_ke(folder, graph)
    assert str(folder) in caught.value.title
    assert caught.value.remedy
    return caught.value.problems


def test_missing_and_damaged_files_are_all_named(odd: KnowledgeGraph, tmp_path: Path) -> None:
    assert not is_dgl_ke(tmp_path)
    folder = write(tmp_path / "m", "TransR", drawn("TransR", odd, 4), 4, (["x"], ["y"]))
    (folder / "tiny_TransR_relation.npy").write_bytes(b"\x80\x04N.")
    (folder / "tiny_TransRprojection.npy").unlink()
    (folder / "tiny_TransR_entity.npy").write_bytes((folder / "tiny_TransR_entity.npy").read_bytes()[:-4])
    (folder / "entities.tsv").write_text("0 ada\n", encoding="utf-8")
    found = problems(folder, odd)
    assert found[:3] == [
        "tiny_TransR_entity.npy: truncated: an array of 336 bytes has only 332",
        "tiny_TransR_relation.npy: it is a pickle",
        "tiny_TransRprojection.npy: no such file",
    ]
    assert found[3].startswith("entities.tsv, line 1: 1 field, expected id<TAB>label")
    assert len(found) == 4


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"model_name": "TransH"}, ["no model of DGL-KE is called 'TransH'; nearest: Trans"]),
        ({"model_name": None}, ["'model_name' or 'model' is None, expected the name of a model"]),
        ({"dataset": "../tiny"}, ["'dataset' is '../tiny', expected the name with which the files begin"]),
        (
            {"gamma": "6", "hidden_dim": 0, "delimiter": "ab", "double_ent": "yes"},
            [
                "'hidden_dim' or 'emb_size' is 0, expected a positive integer",
                "'gamma' is '6', expected a number above -2",
                "'double_ent' is 'yes', expected true or false",
                "'delimiter' is 'ab', expected one character",
            ],
        ),
        ({"hidden_dim": 5}, ["tiny_DistMult_entity.npy: one row has shape (4,), expected (5,) by config.json"]),
        (
            {"dataset": "other"},
            ["other_DistMult_entity.npy: no such file", "other_DistMult_relation.npy: no such file"],
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_options_that_cannot_be_used(
    options: dict[str, Any], wrong: list[str], odd: KnowledgeGraph, tmp_path: Path
) -> None:
    folder = write(tmp_path / "m", "DistMult", drawn("DistMult", odd, 4), 4, **options)
    found = problems(folder, odd)
    assert len(found) == len(wrong)
    for line, expect in zip(found, wrong, strict=True):
        assert line.removeprefix("config.json: ").startswith(expect)


@pytest.mark.parametrize("model", MODELS)
def test_tables_of_another_size(model: str, odd: KnowledgeGraph, tmp_path: Path) -> None:
    tables = drawn(model, odd, 4)
    tables["relation"] = tables["relation"][:, :-1]
    folder = write(tmp_path / "m", model, tables, 4)
    other = KnowledgeGraph.from_triples(train=[[0, 0, 1]])
    wide = f"one row has shape ({tables['relation'].shape[1]},), expected"
    found = problems(folder, other)
    assert "entity: 13 rows, but there are 2 entities" in found
    assert "relation: 3 rows, but there are 1 relations" in found
    assert any(wide in line or "projection: one row has shape (16,), expected (12,)" in line for line in found)


def test_names_of_another_graph(odd: KnowledgeGraph, tmp_path: Path) -> None:
    names = ([*ODD[:-1], "stranger"], ["knows", "lives in", "is,a"])
    for model in ("DistMult", "TransR"):
        folder = write(tmp_path / model, model, drawn(model, odd, 4), 4, names)
        assert problems(folder, odd) == [
            "entities: 1 names that the graph does not have, or has more than once: 'stranger'",
            "entities: 1 names of the graph that are not given: '-1'",
        ]


def test_numbers_that_are_none(odd: KnowledgeGraph, tmp_path: Path) -> None:
    for model in ("DistMult", "TransR"):
        tables = drawn(model, odd, 4)
        tables["entity"][3, 1] = np.nan
        folder = write(tmp_path / model, model, tables, 4)
        said = "1 rows hold NaN, infinity or numbers beyond float32: 3 (counted from 0)"
        assert problems(folder, odd) == [f"tiny_{model}_entity.npy: {said}"]


def test_an_odd_number_of_coordinates(odd: KnowledgeGraph, tmp_path: Path) -> None:
    tables = {"entity": np.ones((13, 3)), "relation": np.ones((3, 3))}
    folder = write(tmp_path / "m", "SimplE", tables, 3, double_ent=False)
    assert problems(folder, odd) == ["tiny_SimplE_entity.npy: 3 coordinates, but SimplE has two halves"]
