"""The text export is read as the library wrote it, and what it leaves out is named."""

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.predict import rank, stored_arrays
from kgprobe.predict.adapters.pbg_checkpoint import open_pbg_checkpoint
from kgprobe.predict.adapters.pbg_export import is_pbg_export, open_pbg_export
from kgprobe.predict.scorers import SIDES
from pbg_models import Plain, configuration, trained, trained_names, write_checkpoint
from ranking import rows_of

EXPORTED = [name for name in trained_names() if (trained() / name / "entity_embeddings.tsv").exists()]
NAMES, RELATIONS = ["Ada", "Bob", '"q"', "\U0001f642", "#x", "NA", "a/b"], ["knows", "likes"]


def exported(name: str, folder: Path) -> tuple[Path, Plain]:
    """An export of the library with the config.json of its checkpoint beside it."""
    place = trained() / name
    for file in ("entity_embeddings.tsv", "relation_types_parameters.tsv", "model/config.json"):
        shutil.copy(place / file, folder)
    return folder, Plain(place / "model", place / "graph")


def test_the_library_exports_all_operators_but_matrices() -> None:
    assert {name.split("_")[1] for name in EXPORTED} == {"none", "diagonal", "translation", "complex", "exported"}


@pytest.mark.parametrize("name", EXPORTED)
def test_an_export_scores_as_its_checkpoint_but_for_its_decimals(name: str, tmp_path: Path) -> None:
    folder, plain = exported(name, tmp_path)
    graph = plain.graph()
    assert is_pbg_export(folder)
    own, scorer, settings, sets = open_pbg_export(folder, graph, graph.triples("test"))
    again, exact, _, _ = open_pbg_checkpoint(trained() / name / "model", graph, graph.triples("test"))
    assert (own, type(scorer), sets) == (again, type(exact), None)
    assert "9 decimals" in settings["notes"][0]
    given, asked = (ids.ravel() for ids in np.indices((graph.num_entities, graph.num_relations)))
    for side in SIDES:
        if hasattr(scorer, "score"):
            np.testing.assert_allclose(*(one.score(side, given, asked) for one in (scorer, exact)), atol=1e-6)  # type: ignore[union-attr]
        else:
            np.testing.assert_allclose(*(one.encode_queries(side, given, asked) for one in (scorer, exact)), atol=1e-6)  # type: ignore[union-attr]
    assert rows_of(rank(folder, graph)) == plain.ranks(graph)


def write_old(path: Path, config: dict[str, Any], seed: int = 0) -> Plain:
    """A checkpoint, and the same model in the older layout, with 4 decimals as the published Wikidata embeddings."""
    folder = path.parent / "checkpoint"
    write_checkpoint(folder, config, {"all": NAMES}, RELATIONS, seed)
    plain = Plain(folder)
    plain.rows = {kind: np.round(rows, 4) for kind, rows in plain.rows.items()}
    plain.found = {name: np.round(values, 4) for name, values in plain.found.items()}
    several = {"translation": "translations", "diagonal": "diagonals"}[config["relations"][0]["operator"]]
    blocks = [(plain.names["all"], plain.rows["all"])]
    for end, suffix in (("rhs", ""), ("lhs", "_reverse_relation")):
        names = [f"{name}{suffix}" for name in RELATIONS]
        blocks.append((names, plain.found[f"relations/0/operator/{end}/{several}"]))
    lines = [f"{len(NAMES)}\t{len(RELATIONS)}\t{config['dimension']}\n"]
    for names, rows in blocks:
        lines += ["\t".join([name, *(f"{x:.4f}" for x in row)]) + "\n" for name, row in zip(names, rows, strict=True)]
    content = "".join(lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    shutil.copy(folder / "config.json", path.parent)
    return plain


def write_array(folder: Path, plain: Plain) -> Path:
    """The older layout as the array and the list of names that are published with the text."""
    found = [plain.found[f"relations/0/operator/{end}/translations"] for end in ("rhs", "lhs")]
    path = folder / "wikidata_translation_v1_vectors.npy"
    np.save(path, np.concatenate([plain.rows["all"], *found]).astype(np.float32))
    names = [*plain.names["all"], *RELATIONS, *(f"{name}_reverse_relation" for name in RELATIONS)]
    (folder / "wikidata_translation_v1_names.json.gz").write_bytes(gzip.compress(json.dumps(names).encode()))
    return path


def test_the_published_array_is_mapped_if_it_is_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = tmp_path / "wikidata_translation_v1.tsv"
    plain = write_old(text, configuration("dot"))
    path, graph = write_array(tmp_path, plain), plain.graph()
    expected = plain.ranks(graph)
    assert rows_of(rank(path, graph)) == expected
    monkeypatch.setattr(stored_arrays, "LARGE_BYTES", 0)
    _, scorer, _, _ = open_pbg_export(path, graph, graph.triples("test"))
    assert scorer.stored_bytes == 4 * 4 * len(NAMES)  # type: ignore[union-attr]
    assert rows_of(rank(path, graph)) == expected
    np.save(path, np.load(path)[:-1])
    assert problems(path, graph) == [f"{path.name}: 10 rows, but there are 11 names"]
    (tmp_path / "wikidata_translation_v1_names.json.gz").write_bytes(gzip.compress(json.dumps(["a"] * 10).encode()))
    assert problems(path, graph) == [
        "wikidata_translation_v1_names.json.gz: 10 rows, of which 10 are entities; expected pairs of relations after "
        "them"
    ]
    (tmp_path / "wikidata_translation_v1_names.json.gz").write_bytes(b"no gzip")
    (found,) = problems(path, graph)
    assert "wikidata_translation_v1_names.json.gz: " in found


@pytest.mark.parametrize("operator", ["translation", "diagonal"])
@pytest.mark.parametrize("name", ["wikidata_translation_v1.tsv", "joined_embeddings.tsv.gz"])
def test_the_layout_of_the_published_wikidata_embeddings(tmp_path: Path, operator: str, name: str) -> None:
    config = configuration("dot")
    config["relations"][0]["operator"] = operator
    plain = write_old(tmp_path / name, config)
    graph = plain.graph()
    assert rows_of(rank(tmp_path / name, graph)) == plain.ranks(graph)


def test_compressed_files(tmp_path: Path) -> None:
    folder, plain = exported("dynamic_diagonal_l2", tmp_path)
    graph = plain.graph()
    expected = rows_of(rank(folder, graph))
    for path in list(folder.glob("*.tsv")):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert rows_of(rank(folder, graph)) == expected
    assert rows_of(rank(folder / "entity_embeddings.tsv.gz", graph)) == expected


def problems(path: Path, graph: KnowledgeGraph) -> list[str]:
    with pytest.raises(DataError) as caught:
        open_pbg_export(path, graph, graph.triples("test"))
    assert str(path) in caught.value.title
    assert caught.value.remedy
    return caught.value.problems


def configure(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps(config))


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    folder, plain = exported("dynamic_complex_diagonal_l2", tmp_path)
    graph = plain.graph()
    text = (folder / "relation_types_parameters.tsv").read_text()
    lines = text.splitlines(keepends=True)
    (folder / "relation_types_parameters.tsv").write_text("".join(lines[:-1]))
    assert problems(folder, graph) == [
        f"relation_types_parameters.tsv: 1 parameters are missing: {lines[-1].split()[0]!r} on rhs: imag"
    ]
    (folder / "relation_types_parameters.tsv").write_text("")
    assert problems(folder, graph) == ["relation_types_parameters.tsv: 1 parameters are missing: all"]
    (folder / "relation_types_parameters.tsv").unlink()
    assert problems(folder, graph) == ["relation_types_parameters.tsv: no such file"]
    config = json.loads((folder / "config.json").read_text())
    del config["comparator"]
    (folder / "config.json").write_text(json.dumps(config))
    assert problems(folder, graph) == ["config.json: 'comparator' is missing, expected a text"]
    (folder / "config.json").unlink()
    assert problems(folder, graph) == ["config.json: no such file"]


def test_bad_lines_of_entities(tmp_path: Path) -> None:
    folder, plain = exported("dynamic_diagonal_l2", tmp_path)
    path = folder / "entity_embeddings.tsv"
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[1] += "\t1"
    lines[2] = lines[2].rpartition("\t")[0] + "\tx1"
    lines[3] = "\t" + lines[3].partition("\t")[2]
    path.write_text("\n".join(lines), encoding="utf-8")
    found = problems(folder, plain.graph())
    assert [problem.rpartition(":")[0] for problem in found] == [
        "entity_embeddings.tsv, line 2: 5 numbers, expected 4 by config.json",
        "entity_embeddings.tsv, line 3: 'x1' is not a number",
        "entity_embeddings.tsv, line 4: no name",
    ]


def test_bad_lines_of_relations(tmp_path: Path) -> None:
    folder, plain = exported("dynamic_diagonal_l2", tmp_path)
    path = folder / "relation_types_parameters.tsv"
    good = path.read_text(encoding="utf-8").splitlines()
    fields = good[0].split("\t")
    bad = {
        "\t".join(fields[:4]): "fewer than 5 fields before the numbers",
        good[0].replace(
            "lhs", "mid"
        ): "operator 'diagonal' on side 'mid', but config.json has 'diagonal' on lhs and rhs",
        good[0].replace("\tdiagonal\t", "\tlinear\t"): (
            "operator 'linear' on side 'lhs', but config.json has 'diagonal' on lhs and rhs"
        ),
        good[0].replace("diagonals", "real"): "parameter 'real' of shape '4', expected diagonal",
        good[0].replace("\t4\t", "\t2x2\t"): "parameter 'diagonals' of shape '2x2', expected 4",
        good[0].rpartition("\t")[0]: "3 numbers for shape 4",
        good[0].rpartition("\t")[0] + "\tnan": "not all are numbers",
        good[0].rpartition("\t")[0] + "\t1e99": "numbers beyond float32",
        good[1]: "the same parameter as before",
    }
    path.write_text("\n".join([*good[1:], *bad]), encoding="utf-8")
    found = problems(folder, plain.graph())
    start = len(good)
    expected = [
        f"relation_types_parameters.tsv, line {i}: {what}: "
        for i, what in enumerate(bad.values(), start)
    ]  # fmt: skip
    assert [problem[: len(text)] for problem, text in zip(found, expected, strict=False)] == expected
    assert found[len(bad) :] == [
        f"relation_types_parameters.tsv: 1 parameters are missing: {fields[0]!r} on lhs: diagonal"
    ]


def test_what_an_export_leaves_out(tmp_path: Path) -> None:
    folder, plain = exported("static_exported", tmp_path)
    graph = plain.graph()
    configure(folder, max_norm=1.0)
    (found,) = problems(folder, graph)
    assert found.startswith("config.json: 'max_norm' with 'global_emb'")
    configure(folder, entities={"people": {"num_partitions": 1}, "things": {"num_partitions": 1}}, max_norm=None)
    (found,) = problems(folder, graph)
    assert found.startswith("config.json: 2 entity types, but the rows of an export do not say their type")


def test_the_older_layout_must_have_pairs_of_relations(tmp_path: Path) -> None:
    path = tmp_path / "joined_embeddings.tsv"
    plain = write_old(path, configuration("dot"))
    graph = plain.graph()
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:-1]), encoding="utf-8")
    assert problems(path, graph) == [
        f"{path.name}: 10 rows, of which 7 are entities; expected pairs of relations after them"
    ]
    path.write_text("".join([*lines[:-2], lines[-1], lines[-2]]), encoding="utf-8")
    assert problems(path, graph) == [
        f"{path.name}: the last 2 names are not those of the 2 relations before, with '_reverse_relation'"
    ]
    path.write_text("".join(["7\t2\t5\n", *lines[1:]]), encoding="utf-8")
    configure(tmp_path, relations=[{"name": "all", "lhs": "all", "rhs": "all", "operator": "affine"}])
    assert problems(path, graph) == [
        f"{path.name}: dimension 5 in line 1, but 4 in config.json",
        f"{path.name}: this layout has one vector for each relation and side: dynamic relations with translation or "
        "diagonal",
    ]
