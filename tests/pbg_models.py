"""Checkpoints of PyTorch-BigGraph for tests: those that the library trained, a writer of its layout, and its formula.

`Plain` scores triples by the formula of the library's ``model.py`` in float64, one after the other.
"""

import json
import math
import tarfile
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kgprobe.graph import KnowledgeGraph
from kgprobe.predict.scorers import SIDES, Side
from ranking import Rows

Array = NDArray[Any]
OPERATORS = ("none", "diagonal", "translation", "linear", "affine", "complex_diagonal")
COMPARATORS = ("dot", "cos", "l2", "squared_l2")
NAMES = ["Ada", "Çelik", "007", "NA", '"q"', "#x", "a/b", "null", "=1+1", "\U0001f642", "x, y", "\u2028", "e\u0301"]
_ARCHIVE = Path(__file__).parent / "saved_models/pbg/pbg_checkpoints.tar.xz"


@cache
def trained() -> Path:
    """The folder of the checkpoints that make_pbg_checkpoints.py trained, with their scores.npz."""
    folder = Path(mkdtemp())
    with tarfile.open(_ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder


def trained_names() -> list[str]:
    return sorted(path.name for path in trained().iterdir() if path.is_dir())


def configuration(comparator: str = "dot", *, dynamic: bool = True, **changes: Any) -> dict[str, Any]:
    """A config.json with two partitions, and two entity types unless relations are dynamic."""
    relations = [
        {"name": f"r:{operator}", "lhs": "people", "rhs": "things", "operator": operator} for operator in OPERATORS
    ]
    config = {
        "entities": {"people": {"num_partitions": 2}, "things": {"num_partitions": 2}},
        "relations": relations,
        "dimension": 4,
        "comparator": comparator,
        "bias": False,
        "global_emb": True,
        "max_norm": None,
        "dynamic_relations": False,
        "entity_path": "graph",
        "edge_paths": [],
        "checkpoint_path": "model",
    }
    if dynamic:
        config |= {"entities": {"all": {"num_partitions": 3}}, "dynamic_relations": True, "global_emb": False}
        config["relations"] = [{"name": "all", "lhs": "all", "rhs": "all", "operator": "translation"}]
    return config | changes


def parameters(operator: str, dimension: int) -> dict[str, tuple[int, ...]]:
    """The parameters of one relation, by the classes of the library."""
    return {
        "none": {},
        "diagonal": {"diagonal": (dimension,)},
        "translation": {"translation": (dimension,)},
        "linear": {"linear_transformation": (dimension, dimension)},
        "affine": {"linear_transformation": (dimension, dimension), "translation": (dimension,)},
        "complex_diagonal": {"real": (dimension // 2,), "imag": (dimension // 2,)},
    }[operator]


def stored_names(config: dict[str, Any], relations: int) -> dict[str, tuple[int, ...]]:
    """The parameters in the file of a model, with their shapes."""
    found: dict[str, tuple[int, ...]] = {}
    for i, relation in enumerate(config["relations"]):
        for name, shape in parameters(relation["operator"], config["dimension"]).items():
            if config["dynamic_relations"]:
                several = name if name in ("real", "imag") else f"{name}s"
                for end in ("lhs", "rhs"):
                    found[f"relations/{i}/operator/{end}/{several}"] = (relations, *shape)
            else:
                found[f"relations/{i}/operator/rhs/{name}"] = shape
    if config["global_emb"]:
        found |= {f"entities/{kind}/global_embedding": (config["dimension"],) for kind in config["entities"]}
    return found


def write_checkpoint(
    folder: Path, config: dict[str, Any], names: dict[str, list[str]], relations: list[str], seed: int = 0
) -> None:
    """Write random tables, in which some rows are the same, by the layout of the library (checkpoint_storage.py)."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "checkpoint_version.txt").write_text("7\n")
    (folder / "config.json").write_text(json.dumps(config, indent=4))
    for kind, about in config["entities"].items():
        table = rng.normal(size=(len(names[kind]), config["dimension"])).astype(np.float32)
        table[len(table) // 2 :: 3] = table[0]
        count = about["num_partitions"]
        for part, (rows, own) in enumerate(
            zip(np.array_split(table, count), np.array_split(np.array(names[kind], dtype=object), count), strict=True)
        ):
            with h5py.File(folder / f"embeddings_{kind}_{part}.v7.h5", "w") as file:
                file.attrs["format_version"] = 1
                file.create_dataset("embeddings", data=rows)
                file.create_dataset("optimizer/state_dict", data=np.frombuffer(b"\x80\x02cos\n", dtype="V1"))
            (folder / f"entity_names_{kind}_{part}.json").write_text(json.dumps(own.tolist(), indent=4))
            (folder / f"entity_count_{kind}_{part}.txt").write_text(f"{len(own)}\n")
    if config["dynamic_relations"]:
        (folder / "dynamic_rel_names.json").write_text(json.dumps(relations, indent=4))
        (folder / "dynamic_rel_count.txt").write_text(f"{len(relations)}\n")
    with h5py.File(folder / "model.v7.h5", "w") as file:
        file.attrs["format_version"] = 1
        group = file.create_group("model", track_order=True)
        for name, shape in stored_names(config, len(relations)).items():
            group.create_dataset(name, data=rng.normal(size=shape).astype(np.float32))


class Plain:
    """A checkpoint as the library reads and scores it: ``SimpleEmbedding``, ``adjust_embs``, operators, comparators."""

    def __init__(self, folder: Path, names: Path | None = None) -> None:
        names = names or folder
        version = (folder / "checkpoint_version.txt").read_text().strip()
        self.config = json.loads((folder / "config.json").read_text())
        self.dynamic = self.config["dynamic_relations"]
        self.rows: dict[str, Array] = {}
        self.names: dict[str, list[str]] = {}
        for kind, about in self.config["entities"].items():
            parts = []
            self.names[kind] = []
            for part in range(about["num_partitions"]):
                with h5py.File(folder / f"embeddings_{kind}_{part}.v{version}.h5") as file:
                    parts.append(file["embeddings"][...].astype(np.float64))
                self.names[kind] += json.loads((names / f"entity_names_{kind}_{part}.json").read_text())
            self.rows[kind] = np.concatenate(parts)
        with h5py.File(folder / f"model.v{version}.h5") as file:
            found: dict[str, Array] = {}
            file["model"].visititems(
                lambda name, item: found.update({name: item[...]}) if isinstance(item, h5py.Dataset) else None
            )
        self.found = {name: values.astype(np.float64) for name, values in found.items()}
        self.relations = (
            json.loads((names / "dynamic_rel_names.json").read_text())
            if self.dynamic
            else [relation["name"] for relation in self.config["relations"]]
        )

    def kind(self, relation: int, end: str) -> str:
        return str(self.config["relations"][0 if self.dynamic else relation][end])

    def embedding(self, kind: str, row: int) -> Array:
        vector = self.rows[kind][row]
        most, norm = self.config["max_norm"], math.sqrt(sum(x * x for x in self.rows[kind][row]))
        if most is not None and norm > most:
            vector = vector * (most / (norm + 1e-7))
        return vector + self.found[f"entities/{kind}/global_embedding"] if self.config["global_emb"] else vector

    def changed(self, vector: Array, relation: int, end: str) -> Array:
        number = 0 if self.dynamic else relation
        operator = self.config["relations"][number]["operator"]

        def own(name: str) -> Array:
            stored = self.found[f"relations/{number}/operator/{end}/{name}{'s' * (self.dynamic and len(name) > 4)}"]
            return stored[relation] if self.dynamic else stored

        if operator == "diagonal":
            return own("diagonal") * vector
        if operator == "translation":
            return vector + own("translation")
        if operator in ("linear", "affine"):
            product = np.array([sum(line * vector) for line in own("linear_transformation")])
            return product + own("translation") if operator == "affine" else product
        if operator == "complex_diagonal":
            half = len(vector) // 2
            turned = (vector[:half] + 1j * vector[half:]) * (own("real") + 1j * own("imag"))
            return np.concatenate([turned.real, turned.imag])
        return vector

    def compared(self, left: Array, right: Array) -> float:
        bias = 0.0
        if self.config["bias"]:
            bias, left, right = left[0] + right[0], left[1:], right[1:]
        if self.config["comparator"] == "cos":
            left, right = left / math.sqrt(sum(left * left)), right / math.sqrt(sum(right * right))
        if self.config["comparator"] in ("dot", "cos"):
            return bias + sum(left * right)
        squared = sum((left - right) ** 2)
        return bias - (math.sqrt(max(squared, 1e-30)) if self.config["comparator"] == "l2" else squared)

    def score(self, side: Side, head: int, relation: int, tail: int) -> float:
        """The score of a triple of rows when its ``side`` is predicted."""
        left = self.embedding(self.kind(relation, "lhs"), head)
        right = self.embedding(self.kind(relation, "rhs"), tail)
        if self.dynamic and side == "tail":
            return float(self.compared(self.changed(left, relation, "lhs"), right))
        return float(self.compared(left, self.changed(right, relation, "rhs")))

    def graph(self, seed: int = 0, triples: int = 60) -> KnowledgeGraph:
        """A random graph of these names in another order, whose triples have the types of their relations."""
        rng = np.random.default_rng(seed)
        entities = sorted({name for names in self.names.values() for name in names}, reverse=True)
        relations = sorted(self.relations, reverse=True)
        drawn = []
        for r in rng.integers(0, len(relations), triples):
            own = self.relations.index(relations[r])
            ends = [rng.choice(np.array(self.names[self.kind(own, end)], dtype=object)) for end in ("lhs", "rhs")]
            drawn.append([entities.index(ends[0]), r, entities.index(ends[1])])
        cut = triples // 3
        return KnowledgeGraph.from_triples(
            train=drawn[cut:-2],
            valid=drawn[-2:],
            test=drawn[:cut],
            name="drawn",
            entity_labels=entities,
            relation_labels=relations,
            num_entities=len(entities),
            num_relations=len(relations),
        )

    def ranks(self, graph: KnowledgeGraph) -> Rows:
        """The rank, ties and candidates of every test triple, filtered, among the entities of the right type."""
        known = {tuple(triple) for split in ("train", "valid", "test") for triple in graph.triples(split).tolist()}
        entities, relations = (
            graph.entity_label(range(graph.num_entities)),
            graph.relation_label(range(graph.num_relations)),
        )
        found: Rows = {}
        for h, r, t in graph.triples("test").tolist():
            own = self.relations.index(relations[r])
            places = {end: {n: i for i, n in enumerate(self.names[self.kind(own, end)])} for end in ("lhs", "rhs")}
            for side in SIDES:
                scores = {}
                for entity, name in enumerate(entities):
                    if name in places["rhs" if side == "tail" else "lhs"]:
                        head, tail = (h, entity) if side == "tail" else (entity, t)
                        rows = places["lhs"][entities[head]], own, places["rhs"][entities[tail]]
                        scores[entity] = self.score(side, *rows)
                target = t if side == "tail" else h
                others = [
                    score
                    for entity, score in scores.items()
                    if ((h, r, entity) if side == "tail" else (entity, r, t)) not in known
                ]
                greater, equal = sum(s > scores[target] for s in others), sum(s == scores[target] for s in others)
                found[h, r, t, side] = (1 + greater + equal / 2, equal, 1 + len(others))
        return found
