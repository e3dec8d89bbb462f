"""Marius folders: with a model.pt that libtorch wrote, and others of the same layout; ranks equal loops."""

import json
import os
import pickle
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph, load_graph
from kgprobe.predict import rank
from kgprobe.predict import stored_arrays as stored_arrays_module
from kgprobe.predict.adapters.marius_folder import DECODERS, is_marius, open_marius
from kgprobe.predict.scorers import SIDES
from kgprobe.predict.stored_arrays import StoredTable
from ranking import Matrix, brute_force, rows_of
from saved_models.marius.make_marius import ENTITIES, RELATIONS, write_folder

Array = NDArray[Any]

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")

SAVED = Path(__file__).parents[2] / "saved_models"


def scores(decoder: str, given: Array, relation: Array, answers: Array) -> Array:
    """The decoder's scores [given, relations, answers] in float64: an operator, then a comparison."""
    e, r, t = (table.astype(np.float64) for table in (given[:, None], relation, answers))
    if decoder == "DISTMULT":
        return (e * r) @ t.T
    if decoder == "TRANSE":
        return np.sqrt((((e + r)[:, :, None] - t) ** 2).sum(-1))
    real, imaginary = np.split(e, 2, axis=-1)
    a, b = np.split(r, 2, axis=-1)
    return np.concatenate([real * a - imaginary * b, real * b + imaginary * a], axis=-1) @ t.T


def expected(decoder: str, tables: dict[str, Array], graph: KnowledgeGraph) -> Any:
    """Filtered ranks by loops: heads by the inverse relations, or by the relations if there are none."""
    entity, relation = tables["entity"], tables["relation"]
    sides = [scores(decoder, entity, table, entity) for table in (tables.get("inverse", relation), relation)]
    return brute_force(Matrix(np.stack(sides)), graph)


def drawn(decoder: str, graph: KnowledgeGraph, *, inverse: bool = True, seed: int = 0) -> dict[str, Array]:
    """Tables in the order of the ids, with equal rows; on a grid where scores are sums of products."""
    rng = np.random.default_rng(seed)
    sizes = {"entity": graph.num_entities, "relation": graph.num_relations}
    sizes |= {"inverse": graph.num_relations} if inverse else {}
    tables = {
        name: rng.normal(size=(rows, 6)).astype(np.float32)
        if decoder == "TRANSE"
        else rng.integers(-8, 9, (rows, 6)).astype(np.float32) / 8
        for name, rows in sizes.items()
    }
    tables["entity"][graph.num_entities // 2] = tables["entity"][1]
    return tables


class Parameters(torch.nn.Module):
    def __init__(self, tables: dict[str, Array]) -> None:
        super().__init__()
        for name, table in tables.items():
            self.register_parameter(name, torch.nn.Parameter(torch.from_numpy(table)))

    def forward(self) -> int:
        return 0


def archive(path: Path, tables: dict[str, Array]) -> None:
    torch.jit.save(torch.jit.script(Parameters(tables)), path)


def write(
    folder: Path, decoder: str, tables: dict[str, Array], graph: KnowledgeGraph | None = None, **options: str
) -> Path:
    """A folder in the layout of Marius, with other values of some options; rows are shuffled if there is a graph."""
    names = graph and (graph.entity_label(range(graph.num_entities)), graph.relation_label(range(graph.num_relations)))
    write_folder(folder, decoder, tables, names, archive)
    text = (folder / "full_config.yaml").read_text(encoding="utf-8")
    for key, value in options.items():
        (line,) = [line for line in text.splitlines() if line.strip().startswith(f"{key}:") and line.split(": ")[1:]]
        text = text.replace(f"{line}\n", f"{line.split(':')[0]}: {value}\n")
    (folder / "full_config.yaml").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def tiny() -> KnowledgeGraph:
    """The graph of the saved folders, whose names have quotes, commas, digits, and letters beyond ASCII."""
    return load_graph(SAVED / "dgl_ke" / "graph")


def saved_tables(decoder: str, graph: KnowledgeGraph) -> dict[str, Array]:
    """The tables of a saved folder in the order of the ids of the graph."""
    rows = {"entity": [ENTITIES.index(label) for label in graph.entity_label(range(8))]}
    rows["relation"] = rows["inverse"] = [RELATIONS.index(label) for label in graph.relation_label(range(3))]
    with np.load(SAVED / "marius" / decoder.lower() / "tables.npz") as tables:
        return {name: tables[name][rows[name]] for name in tables.files}


@pytest.mark.parametrize("decoder", DECODERS)
def test_folders_with_an_archive_of_libtorch(decoder: str, tiny: KnowledgeGraph) -> None:
    folder = SAVED / "marius" / decoder.lower()
    assert is_marius(folder)
    tables = saved_tables(decoder, tiny)
    ranks = expected(decoder, tables, tiny)
    sides = "both" if "inverse" in tables else "tail"
    assert rows_of(rank(folder, tiny, sides=sides)) == {
        key: row for key, row in ranks.items() if sides == "both" or key[3] == "tail"
    }
    name, _, settings = open_marius(folder, tiny, ["tail"])
    assert settings["model"] == name == DECODERS[decoder][0]
    assert settings["matched by name"] == ["entities", "relations"]
    assert json.loads(json.dumps(settings)) == settings


@pytest.mark.parametrize("decoder", DECODERS)
def test_ranks_of_a_real_graph(decoder: str, tmp_path: Path, data: Path) -> None:
    graph = load_graph(data / "graphs" / "umls")
    tables = drawn(decoder, graph)
    folder = write(tmp_path / "m", decoder, tables, graph)
    assert rows_of(rank(folder, graph)) == expected(decoder, tables, graph)


@pytest.mark.parametrize("decoder", DECODERS)
def test_embeddings_that_stay_in_their_file(
    decoder: str, tiny: KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = drawn(decoder, tiny)
    folder = write(tmp_path / "m", decoder, tables, tiny)
    monkeypatch.setattr(stored_arrays_module, "LARGE_BYTES", 0)
    _, scorer, _ = open_marius(folder, tiny, SIDES)
    assert isinstance(scorer.heads, StoredTable)  # type: ignore[union-attr]
    assert rows_of(rank(folder, tiny)) == expected(decoder, tables, tiny)


def test_the_farthest_candidate_of_transe_is_the_best(tmp_path: Path) -> None:
    graph = KnowledgeGraph.from_triples(train=[[0, 1, 0]], test=[[0, 0, 3], [0, 0, 1]], num_entities=4)
    tables = {"entity": np.float32([[0, 0], [1, 0], [2, 0], [3, 0]]), "relation": np.zeros((2, 2), np.float32)}
    ranks = rows_of(rank(write(tmp_path / "m", "TRANSE", tables), graph, sides="tail", filter="none"))
    assert {key[2]: row[0] for key, row in ranks.items()} == {3: 1.0, 1: 3.0}


def test_rows_without_names_are_in_the_order_of_the_ids(tiny: KnowledgeGraph, tmp_path: Path) -> None:
    tables = drawn("COMPLEX", tiny)
    folder = write(tmp_path / "m", "COMPLEX", tables)
    assert rows_of(rank(folder, tiny)) == expected("COMPLEX", tables, tiny)
    _, _, settings = open_marius(folder, tiny, SIDES)
    assert "matched by name" not in settings


def problems(folder: Path, graph: KnowledgeGraph, sides: Any = SIDES) -> list[str]:
    with pytest.raises(DataError) as caught:
        open_marius(folder, graph, sides)
    assert str(folder) in caught.value.title
    assert caught.value.remedy
    return caught.value.problems


def test_heads_without_inverse_relations(tiny: KnowledgeGraph, tmp_path: Path) -> None:
    tables = drawn("DISTMULT", tiny, inverse=False)
    folder = write(tmp_path / "m", "DISTMULT", tables, tiny)
    (said,) = problems(folder, tiny)
    assert said == "the model was trained without inverse relations (inverse_edges), so Marius scores tails alone"
    ranks = expected("DISTMULT", tables, tiny)
    assert rows_of(rank(folder, tiny, sides="tail")) == {key: row for key, row in ranks.items() if key[3] == "tail"}


def test_a_single_relation_is_left_out_and_heads_are_not_scored(tmp_path: Path) -> None:
    graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[1, 0, 2]])
    folder = write(tmp_path / "m", "DISTMULT", drawn("DISTMULT", graph))
    assert "Marius scores tails alone" in problems(folder, graph)[0]
    open_marius(folder, graph, ["tail"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"inverse_edges": "maybe"}, "model.decoder.options.inverse_edges is neither true nor false"),
        ({"num_nodes": "-8"}, "storage.dataset.num_nodes is '-8', expected a positive integer"),
        ({"num_nodes": "{}"}, "storage.dataset.num_nodes is missing, expected a positive integer"),
        ({"bias": "true"}, "model.encoder.layers is not one EMBEDDING layer without bias and activation"),
        ({"activation": "RELU"}, "model.encoder.layers is not one EMBEDDING layer without bias and activation"),
        ({"dtype": "double"}, "storage.embeddings.options.dtype is not float"),
        ({"output_dim": "five"}, "output_dim is 'five', expected a positive integer"),
    ],
    ids=lambda value: "=".join(*value.items()) if isinstance(value, dict) else "",
)
def test_options_that_cannot_be_used(options: dict[str, str], said: str, tiny: KnowledgeGraph, tmp_path: Path) -> None:
    folder = write(tmp_path / "m", "DISTMULT", drawn("DISTMULT", tiny), tiny, **options)
    (only,) = problems(folder, tiny)
    assert only.removeprefix("full_config.yaml: ").startswith(said)


def test_decoders_and_encoders_that_are_not_supported(tiny: KnowledgeGraph, tmp_path: Path) -> None:
    folder = write(tmp_path / "m", "ROTATE", drawn("DISTMULT", tiny), tiny)
    text = (folder / "full_config.yaml").read_text(encoding="utf-8")
    (folder / "full_config.yaml").write_text(text.replace("- - type: EMBEDDING", "- - type: GNN"), encoding="utf-8")
    found = problems(folder, tiny)
    assert found[0].startswith("full_config.yaml: no decoder is called 'ROTATE'")
    assert found[1].startswith("full_config.yaml: model.encoder.layers is not one EMBEDDING layer")


def test_complex_numbers_need_an_even_dimension(tiny: KnowledgeGraph, tmp_path: Path) -> None:
    tables = {name: table[:, :5] for name, table in drawn("COMPLEX", tiny).items()}
    folder = write(tmp_path / "m", "COMPLEX", tables, tiny)
    assert problems(folder, tiny) == [
        "full_config.yaml: 5 coordinates, but ComplEx has as many imaginary as real parts"
    ]


def test_missing_and_damaged_files_are_all_named(tiny: KnowledgeGraph, tmp_path: Path) -> None:
    assert not is_marius(tmp_path)
    folder = write(tmp_path / "m", "DISTMULT", drawn("DISTMULT", tiny), tiny)
    (folder / "node_mapping.txt").write_text("ada,0\nbob,x\n", encoding="utf-8")
    (folder / "embeddings.bin").write_bytes(b"\0" * 100)
    (folder / "model.pt").unlink()
    assert problems(folder, tiny) == [
        "node_mapping.txt, line 2: 'x' is not an id: 'bob,x'",
        "model.pt: no such file",
        "embeddings.bin: 100 bytes, expected 192 bytes: 8 x 6 numbers of float32 by full_config.yaml",
    ]
    for content in (b"[1", b"- 1", b"", b"a: !!python/object/apply:os.getcwd []", b"\xff\xfe\x00", b"[" * 9999):
        (folder / "full_config.yaml").write_bytes(content)
        assert any("full_config.yaml" in line for line in problems(folder, tiny))


@pytest.mark.parametrize("text", ["-0", "+0", "0x0", " 0.0", ""])
def test_ids_are_plain_digits(text: str, tiny: KnowledgeGraph, tmp_path: Path) -> None:
    folder = write(tmp_path / "m", "DISTMULT", drawn("DISTMULT", tiny), tiny)
    (folder / "relation_mapping.txt").write_text(f"knows,1\nlives in,{text}\nis,a,2\n", encoding="utf-8")
    (said,) = problems(folder, tiny)
    assert said.startswith("relation_mapping.txt, line 2: ")


def test_another_graph(tiny: KnowledgeGraph, tmp_path: Path) -> None:
    folder = write(tmp_path / "m", "DISTMULT", drawn("DISTMULT", tiny))
    other = KnowledgeGraph.from_triples(train=[[0, 3, 8]])
    assert problems(folder, other) == [
        "embeddings.bin: 8 rows, but there are 9 entities",
        "relation_embeddings: 3 rows, but there are 4 relations",
        "inverse_relation_embeddings: 3 rows, but there are 4 relations",
    ]
    named = write(tmp_path / "n", "DISTMULT", drawn("DISTMULT", tiny), tiny)
    (named / "node_mapping.txt").write_text("".join(f"{i},{i}\n" for i in range(8)), encoding="utf-8")
    assert problems(named, tiny)[0].startswith("entities: 6 names that the graph does not have")


def test_an_archive_without_inverse_relations(tiny: KnowledgeGraph, tmp_path: Path) -> None:
    tables = drawn("DISTMULT", tiny)
    folder = write(tmp_path / "m", "DISTMULT", tables, tiny)
    archive(folder / "model.pt", {"relation_embeddings": tables["relation"]})
    assert problems(folder, tiny) == ["no array 'inverse_relation_embeddings'"]


class Trap:
    """What unpickling would run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.folder),)


def test_nothing_in_an_archive_is_run(tiny: KnowledgeGraph, tmp_path: Path) -> None:
    folder, ran = write(tmp_path / "m", "DISTMULT", drawn("DISTMULT", tiny), tiny), tmp_path / "ran"
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        raw = pickle.dumps(Trap(ran), protocol)
        with zipfile.ZipFile(folder / "model.pt", "w") as members:
            members.writestr("model/data.pkl", raw)
        assert problems(folder, tiny) == ["model.pt: not a TorchScript archive: its data.pkl describes no module"]
        assert not ran.exists()
    pickle.loads(raw)
    assert ran.exists()


def test_files_that_are_no_archive_of_a_module(tiny: KnowledgeGraph, tmp_path: Path) -> None:
    folder = write(tmp_path / "m", "DISTMULT", drawn("DISTMULT", tiny), tiny)
    torch.save({"relation_embeddings": torch.eye(2)}, folder / "model.pt")
    assert problems(folder, tiny) == ["model.pt: not a TorchScript archive: its data.pkl describes no module"]
    (folder / "model.pt").write_bytes(b"text")
    assert problems(folder, tiny) == ["model.pt: not a file of torch: it begins with b'te'"]


def test_damaged_parameters_are_all_named(tiny: KnowledgeGraph, tmp_path: Path) -> None:
    tables = drawn("DISTMULT", tiny)
    folder = write(tmp_path / "m", "DISTMULT", tables, tiny)
    raw = bytearray((folder / "model.pt").read_bytes())
    for name in ("relation", "inverse"):
        raw[raw.index(tables[name][1].tobytes())] ^= 1
    (folder / "model.pt").write_bytes(raw)
    assert problems(folder, tiny) == [
        f"model.pt: model/data/{number}: the checksum does not match: its numbers have changed" for number in (0, 1)
    ]


def test_numbers_that_are_none(tiny: KnowledgeGraph, tmp_path: Path) -> None:
    tables = drawn("DISTMULT", tiny)
    tables["entity"][3, 1], tables["inverse"][0, 0] = np.nan, np.inf
    said = "1 rows hold NaN, infinity or numbers beyond float32"
    assert problems(write(tmp_path / "m", "DISTMULT", tables), tiny) == [
        f"embeddings.bin: {said}: 3 (counted from 0)",
        f"inverse_relation_embeddings: {said}: 0 (counted from 0)",
    ]


def test_without_pyyaml(tiny: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(UsageError) as caught:
        open_marius(SAVED / "marius" / "complex", tiny, SIDES)
    assert caught.value.remedy == "pip install 'kgprobe[marius]'"
