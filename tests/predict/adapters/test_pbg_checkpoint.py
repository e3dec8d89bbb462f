"""Ranks of checkpoints are those of the library's own model code and of its formula in float64."""

import json
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.predict import rank, stored_arrays
from kgprobe.predict.adapters.opening import Opening, open_model
from kgprobe.predict.adapters.pbg_checkpoint import is_pbg_checkpoint, open_pbg_checkpoint
from kgprobe.predict.adapters.pbg_scorers import BiasedDistances, PbgByRelation, PbgEmbeddings
from kgprobe.predict.adapters.pbg_tables import CANDIDATES
from kgprobe.predict.queries import RankedTriples
from kgprobe.predict.scorers import SIDES
from kgprobe.predict.stored_arrays import StoredTable
from kgprobe.resources import Resources
from pbg_models import COMPARATORS, NAMES, OPERATORS, Plain, configuration, trained, trained_names, write_checkpoint
from ranking import rows_of

PEOPLE, THINGS = [*NAMES, "Bob", "Cy"], ["thing", *NAMES[:5], "other", "last"]
ALL = [*NAMES, *(f"e{i}" for i in range(12))]
RELATIONS = ["knows", "likes!", "\U0001f642"]


def written(folder: Path, config: dict[str, Any], seed: int = 0) -> Plain:
    """A checkpoint of random numbers."""
    if config["dynamic_relations"]:
        write_checkpoint(folder, config, {"all": ALL}, RELATIONS, seed)
    else:
        kinds = {kind: PEOPLE if kind == "people" else THINGS for kind in config["entities"]}
        write_checkpoint(folder, config, kinds, [], seed)
    return Plain(folder)


@pytest.mark.parametrize("name", trained_names())
def test_the_formula_is_that_of_the_library(name: str) -> None:
    plain = Plain(trained() / name / "model", trained() / name / "graph")
    with np.load(trained() / "scores.npz") as scores:
        for side in SIDES:
            expected = scores[f"{name}/{side}"]
            rows = product(*map(range, expected.shape))
            found = np.reshape([plain.score(side, *row) for row in rows], expected.shape)
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_trained_checkpoints_exercise_the_largest_norm() -> None:
    place = trained() / "static_dot_bias"
    plain = Plain(place / "model", place / "graph")
    norms = np.linalg.norm(np.concatenate(list(plain.rows.values())), axis=1)
    assert (norms > plain.config["max_norm"] * 1.01).any()


@pytest.mark.parametrize("name", trained_names())
def test_ranks_of_trained_checkpoints(name: str) -> None:
    folder = trained() / name
    plain = Plain(folder / "model", folder / "graph")
    graph = plain.graph()
    ranks = rank(folder / "model", graph)  # names are found where training read them, beside the checkpoint
    assert rows_of(ranks) == plain.ranks(graph)
    assert ranks.info.model.startswith("PBG(")
    assert ranks.info.settings["library"] == "PyTorch-BigGraph"
    typed = not plain.dynamic and len(plain.names) > 1
    assert (ranks.info.candidates.name == CANDIDATES) == typed  # type: ignore[union-attr]


CASES = [
    *((comparator, "", bias, bias) for comparator in COMPARATORS for bias in (False, True)),
    *((comparator, op, bias, False) for comparator in COMPARATORS for op in OPERATORS for bias in (False, True)),
]


@pytest.mark.parametrize(("comparator", "operator", "bias", "limited"), CASES)
@pytest.mark.parametrize("large", [False, True], ids=["in memory", "in files"])
def test_ranks_are_those_of_the_formula(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    comparator: str,
    operator: str,
    bias: bool,
    limited: bool,
    large: bool,
) -> None:
    config = configuration(comparator, dynamic=bool(operator), bias=bias, max_norm=1.5 if limited else None)
    if operator:
        config["relations"][0]["operator"] = operator
    plain = written(tmp_path, config)
    graph = plain.graph(triples=24)
    if large:
        monkeypatch.setattr(stored_arrays, "LARGE_BYTES", 0)
    found = rows_of(rank(tmp_path, graph, resources=Resources(threads=1, shards=2)))
    assert found == plain.ranks(graph)
    assert any(ties for _, ties, _ in found.values())  # some rows are the same


MIXED = {
    "one type": [("all", "none", "all"), ("all", "translation", "all"), ("all", "translation", "all")],
    "all pairs of types": [
        ("people", "translation", "things"),
        ("things", "translation", "people"),
        ("people", "diagonal", "people"),
        ("things", "translation", "things"),
    ],
    "pairs without parameters": [("people", "none", "things"), ("things", "none", "people")],
}


@pytest.mark.parametrize("kinds", MIXED)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("comparator", COMPARATORS)
def test_relations_between_different_types(tmp_path: Path, comparator: str, bias: bool, kinds: str) -> None:
    config = configuration(comparator, dynamic=False, bias=bias)
    config["relations"] = [
        {"name": f"r{i}", "lhs": lhs, "rhs": rhs, "operator": operator}
        for i, (lhs, operator, rhs) in enumerate(MIXED[kinds])
    ]
    if kinds == "one type":
        config["entities"] = {"all": {"num_partitions": 2}}
    plain = written(tmp_path, config)
    graph = plain.graph()
    assert rows_of(rank(tmp_path, graph)) == plain.ranks(graph)
    _, scorer, _, _ = open_pbg_checkpoint(tmp_path, graph, graph.triples("test"))
    if bias and "l2" in comparator:
        assert isinstance(scorer, BiasedDistances)
        label = np.array(graph.entity_label(range(graph.num_entities)))
        given = np.array([graph.triples("test")[0][0]])
        absent = ~np.isin(label, plain.names[plain.kind(plain.relations.index("r0"), "rhs")])
        scores = scorer.score("tail", given, np.array([graph.relation_label(range(len(MIXED[kinds]))).index("r0")]))
        assert np.array_equal(np.isneginf(scores[0]), absent)
    else:
        expected = PbgEmbeddings if kinds == "one type" and comparator != "cos" else PbgByRelation
        assert isinstance(scorer, expected)


def test_rows_in_files_are_those_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = written(tmp_path, configuration("cos", max_norm=1.0))
    graph = plain.graph()
    _, small, _, _ = open_pbg_checkpoint(tmp_path, graph, graph.triples("test"))
    monkeypatch.setattr(stored_arrays, "LARGE_BYTES", 0)
    _, large, _, _ = open_pbg_checkpoint(tmp_path, graph, graph.triples("test"))
    for side in SIDES:
        expected, table = small.candidates(side), large.candidates(side)  # type: ignore[union-attr]
        assert isinstance(table, StoredTable)
        assert large.stored_bytes == 4 * 4 * len(ALL)  # type: ignore[union-attr]
        for index in (slice(0, len(ALL)), slice(3, 9), np.array([7, 0, 7, 24])):
            assert np.array_equal(table[index], expected[index])
    ids = np.arange(9), np.arange(9) % 3
    assert np.array_equal(small.encode_queries("head", *ids), large.encode_queries("head", *ids))  # type: ignore[union-attr]


def test_names_of_two_types_are_one_entity_with_two_embeddings(tmp_path: Path) -> None:
    plain = written(tmp_path, configuration("dot", dynamic=False))
    shared = set(plain.names["people"]) & set(plain.names["things"])
    assert shared
    graph = plain.graph()
    model = open_model(tmp_path, Opening(graph, RankedTriples.build(graph)))
    assert model.sets is not None
    assert graph.entity_label(model.sets.ids("head", 0)) == sorted(PEOPLE, reverse=True)
    assert graph.entity_label(model.sets.ids("tail", 3)) == sorted(THINGS, reverse=True)
    ranks = rank(tmp_path, graph, filter="none")
    sizes = {"head": len(PEOPLE), "tail": len(THINGS)}
    assert [sizes[side] for side in ranks.column("side").to_pylist()] == ranks.candidates.tolist()


def test_given_candidates_are_those_of_the_type_only(tmp_path: Path) -> None:
    plain = written(tmp_path, configuration("dot", dynamic=False))
    graph = plain.graph()
    lines = [f"r:none\t{side}\t{name}\n" for side in SIDES for name in ("Bob", "Ada", "thing")]
    lines += [f"r:{op}\t{side}\tBob\n" for op in OPERATORS[1:] for side in SIDES]
    (tmp_path / "candidates.tsv").write_text("".join(lines), encoding="utf-8")
    place = {name: i for i, name in enumerate(graph.entity_label(range(graph.num_entities)))}
    triples = np.array([[place["#x"], graph.relation_label(range(6)).index("r:none"), place["last"]]])
    ranks = rank(tmp_path, graph, triples=triples, filter="none", candidates=tmp_path / "candidates.tsv")
    assert ranks.candidates.tolist() == [1 + 2, 1 + 2]  # Ada and thing; Ada and Bob
    assert ranks.info.candidates.name == f"candidates.tsv, {CANDIDATES}"  # type: ignore[union-attr]
    things, people = ([[place[name] for name in names]] for names in (("Ada", "other"), ("Ada", "Bob")))
    np.savez(tmp_path / "good.npz", head=people, tail=things)
    np.savez(tmp_path / "bad.npz", head=things, tail=people)
    ranks = rank(tmp_path, graph, triples=triples, filter="none", candidates=tmp_path / "good.npz")
    assert ranks.candidates.tolist() == [3, 3]
    with pytest.raises(DataError) as caught:
        rank(tmp_path, graph, triples=triples, filter="none", candidates=tmp_path / "bad.npz")
    assert caught.value.problems == [
        f"{side}: entities that the model does not have there, in 1 rows: 0 (counted from 0)" for side in SIDES
    ]


def test_triples_of_the_wrong_type_are_refused(tmp_path: Path) -> None:
    plain = written(tmp_path, configuration("dot", dynamic=False))
    graph = plain.graph()
    label = graph.entity_label(range(graph.num_entities))
    triples = np.array([[label.index("Ada"), 0, label.index("thing")], [label.index("thing"), 0, label.index("Bob")]])
    with pytest.raises(DataError) as caught:
        rank(tmp_path, graph, triples=triples)
    assert caught.value.problems == [
        f"1 ranked triples have a {side} that is not of the type of their relation: rows 1 (counted from 0)"
        for side in SIDES
    ]


def test_a_snapshot_has_its_configuration_in_the_file_of_the_model() -> None:
    folder = trained() / "static_cos"
    plain = Plain(folder / "model", folder / "graph")
    snapshot = folder / "model" / "epoch_3"
    shutil.copytree(folder / "model", snapshot)
    try:
        (snapshot / "config.json").unlink()
        for path in (folder / "graph").iterdir():
            shutil.copy(path, snapshot)
        graph = plain.graph()
        assert rows_of(rank(snapshot, graph)) == plain.ranks(graph)
    finally:
        shutil.rmtree(snapshot)


def test_rotations_of_the_first_versions_are_transposed(tmp_path: Path) -> None:
    for dynamic in (False, True):
        config = configuration("l2", dynamic=dynamic)
        if dynamic:
            config["relations"][0]["operator"] = "affine"
        plain = written(tmp_path / str(dynamic), config)
        graph = plain.graph()
        expected = rows_of(rank(tmp_path / str(dynamic), graph))
        with h5py.File(tmp_path / str(dynamic) / "model.v7.h5", "a") as file:
            number = 0 if dynamic else OPERATORS.index("affine")
            for end in ("lhs", "rhs") if dynamic else ("rhs",):
                place = file[f"model/relations/{number}/operator/{end}"]
                values = place[f"linear_transformation{'s' * dynamic}"][...]
                del place[f"linear_transformation{'s' * dynamic}"]
                place[f"rotation{'s' * dynamic}"] = values.swapaxes(-1, -2)
        assert rows_of(rank(tmp_path / str(dynamic), graph)) == expected


def test_configurations_of_the_first_versions(tmp_path: Path) -> None:
    config = configuration("dot")
    plain = written(tmp_path, config)
    graph = plain.graph()
    old = {"maxNorm": None, "globalEmb": False, "dynamicRelations": True, "entities": {"all": {"numPartitions": 3}}}
    kept = {key: config[key] for key in ("relations", "dimension", "comparator")}
    (tmp_path / "config.json").write_text(json.dumps(kept | old))
    assert rows_of(rank(tmp_path, graph)) == plain.ranks(graph)


@pytest.mark.parametrize("options", [{"chunks": (2, 4)}, {"compression": "gzip"}, {"dtype": ">f8"}, {"dtype": "<f2"}])
def test_datasets_of_other_layouts(tmp_path: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, configuration("dot"))
    for part in range(3):
        with h5py.File(tmp_path / f"embeddings_all_{part}.v7.h5", "a") as file:
            values = file["embeddings"][...]
            del file["embeddings"]
            file.create_dataset("embeddings", data=values, **options)
    plain = Plain(tmp_path)
    graph = plain.graph(triples=24)
    assert rows_of(rank(tmp_path, graph)) == plain.ranks(graph)
    monkeypatch.setattr(stored_arrays, "LARGE_BYTES", 0)
    assert rows_of(rank(tmp_path, graph)) == plain.ranks(graph)


def test_chunks_that_do_not_fit_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = written(tmp_path, configuration("dot"))
    with h5py.File(tmp_path / "embeddings_all_0.v7.h5", "a") as file:
        del file["embeddings"]
        file.create_dataset("embeddings", shape=(1 << 40, 4), chunks=(1 << 10, 4), dtype="f4")
    graph: KnowledgeGraph = plain.graph()
    with pytest.raises(DataError) as caught:
        open_pbg_checkpoint(tmp_path, graph, graph.triples("test"))
    assert any("stored in chunks, unpacks to 16.0 TiB" in problem for problem in caught.value.problems)


def test_other_folders_are_no_checkpoints(tmp_path: Path) -> None:
    assert not is_pbg_checkpoint(tmp_path)
    assert not is_pbg_checkpoint(tmp_path / "absent")
    (tmp_path / "checkpoint_version.txt").touch()
    assert is_pbg_checkpoint(tmp_path)
