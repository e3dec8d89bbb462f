"""Checkpoints and packages of LibKGE (.pt), read without LibKGE, without torch, and without running their pickle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.errors import DataError
from kgprobe.graph.names import as_labels
from kgprobe.graph.text_files import Layout, read_dictionary
from kgprobe.predict.adapters.embedding_files import RowIds, candidate_table, read_table, refuse_misfit
from kgprobe.predict.adapters.interactions import INTERACTIONS, Arrange, ComposedScorer, unchanged
from kgprobe.predict.adapters.libkge_models import MODELS, HyperplaneScorer, ModelForm, ReciprocalScorer, projected
from kgprobe.predict.pickled_values import Made, mapping_of, refuse_unknown, shown
from kgprobe.predict.scorers import AnyScorer, Singles
from kgprobe.predict.stored_arrays import StoredArray, StoredTable, reading
from kgprobe.predict.torch_files import TORCH_NAMES, TorchFile, is_torch_file, open_torch_file

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph
    from kgprobe.graph.names import Labels

CONFIG = "kge.config.Config"
RECIPROCAL = ("reciprocal_relations_model", "inverse_relations_model")
EMBEDDERS = ("lookup_embedder", "projection_embedder", "tucker3_relation_embedder")
PLURALS = {"entity": "entities", "relation": "relations"}

KNOWN_NAMES = TORCH_NAMES | {
    *(CONFIG, "collections.defaultdict", "_codecs.encode", "numpy.dtype"),
    *("numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar"),
    *(f"{module}.{name}" for module in ("builtins", "__builtin__") for name in ("set", "frozenset", "dict", "list")),
    *(f"{module}.{name}" for module in ("builtins", "__builtin__") for name in ("int", "float", "str", "bool")),
}
"""The classes and functions that checkpoints name. None is called, but others say that a file is something else."""

_REMEDY = f"it needs a checkpoint or package of one of the models {', '.join(MODELS)}, also with reciprocal relations"
_IDS = Layout({"id": True, "label": False}, "index<TAB>id", "\t", lambda line: line.split("\t", 1))
_MOST_SHOWN = 10
_FOLDERS_ABOVE = 4
_MOST_LOOKUPS = 100
_MOST_EPOCHS = 1 << 53


def is_libkge(path: str | PathLike[str]) -> bool:
    """Whether a file looks like a checkpoint or a package of LibKGE."""
    place = Path(path)
    return place.suffix == ".pt" and place.is_file() and is_torch_file(place)


def open_libkge(
    path: str | PathLike[str], graph: KnowledgeGraph, *, trust_pickle: bool = False
) -> tuple[str, AnyScorer, dict[str, Any]]:
    """Open a checkpoint (checkpoint_best.pt, checkpoint_00050.pt) or a package (model_best.pt).

    A package has the names of its entities and relations. Those of a checkpoint are looked for in ``entity_ids.del``
    and ``relation_ids.del``, in the folder of the checkpoint or in the folder ``data/NAME`` of LibKGE above it. Without
    names the rows are those of the graph's ids, if there are as many.

    Args:
        path: The file.
        graph: The graph to rank.
        trust_pickle: Read a file that names classes which LibKGE does not save. These parts of it are left out: nothing
            in the file is ever run.

    Returns:
        The name of the model, its scorer, and its metadata.

    Raises:
        DataError: The file is damaged, is not of LibKGE, has a model that is not supported, or does not fit the graph.
    """
    place = Path(path)
    file = open_torch_file(place)
    if not trust_pickle:
        refuse_unknown(place, file.names - KNOWN_NAMES, "LibKGE")
    problems: list[str] = []
    with reading(place):
        model = _read_model(file, problems)
    if model is None or problems:
        raise DataError(f"{place}: not a model of LibKGE that can be ranked", problems, _REMEDY)
    problems += _size_problems(model, graph)
    names: dict[str, Labels | None] = {}
    unnamed: list[str] = []
    for kind, what in PLURALS.items():
        labels = _labels(model, kind, problems)
        if labels is None or (graph.entity_labels if kind == "entity" else graph.relation_labels) is None:
            why = "the file has no names" if labels is None else "the graph has no names"
            unnamed.append(f"{what} are taken in the order of the graph's ids, because {why}")
            labels = None
        names[kind] = labels
    ids = RowIds.of(names["entity"], names["relation"], graph, problems)
    refuse_misfit(place, graph, problems)
    scorer = _scorer(model, ids, problems)
    refuse_misfit(place, graph, problems)
    settings = _settings(model) | ids.settings
    return model.form.class_name, scorer, settings | ({"notes": unnamed} if unnamed else {})


@dataclass(frozen=True)
class Options:
    """LibKGE's options, with their defaults."""

    tree: Mapping[Any, Any]

    def get(self, key: str) -> Any:
        """The value of a key; None if it is not set."""
        value: Any = self.tree
        for name in key.split("."):
            value = (mapping_of(value) or {}).get(name)
        return value

    def default(self, key: str) -> Any:
        """The value of a key, or of the same option of the type that is set above it; None if neither is set.

        Example:
            >>> tree = {"mine": {"base_model": {"type": "transe"}}, "transe": {"l_norm": 2.0}}
            >>> Options(tree).default("mine.base_model.l_norm")
            2.0
        """
        parent, _, option = key.rpartition(".")
        for _ in range(_MOST_LOOKUPS):
            value = self.get(f"{parent}.{option}")
            if value is not None or not parent:
                return value
            kind = self.get(f"{parent}.type")
            if isinstance(kind, str):
                parent, _, option = f"{kind}.{option}".rpartition(".")
            else:
                parent, _, last = parent.rpartition(".")
                option = f"{last}.{option}"
        return None


@dataclass(frozen=True, eq=False)
class _Embeddings:
    """The embeddings of the entities or of the relations.

    Attributes:
        array: The stored rows.
        width: Coordinates of an embedding.
        compute: Computes embeddings from stored rows.
    """

    array: StoredArray
    width: int
    compute: Arrange = unchanged


@dataclass(frozen=True, eq=False)
class _Model:
    """The model in a file.

    Attributes:
        file: The file.
        content: What was saved besides the model.
        options: The options.
        form: How its scores are computed.
        norm: The option ``l_norm``.
        reciprocal: Whether each relation has a second row, for its head queries.
        entities: The embeddings of the entities.
        relations: The embeddings of the relations.
    """

    file: TorchFile
    content: Mapping[Any, Any]
    options: Options
    form: ModelForm
    norm: float
    reciprocal: bool
    entities: _Embeddings
    relations: _Embeddings

    def rows(self, kind: str) -> int:
        """The number of entities or of relations."""
        if kind == "entity":
            return self.entities.array.shape[0]
        return self.relations.array.shape[0] // (2 if self.reciprocal else 1)


def _read_model(file: TorchFile, problems: list[str]) -> _Model | None:
    """The model in a file; or None, with all problems appended to ``problems``."""
    content = mapping_of(file.value) or {}
    saved, config = content.get("model"), content.get("config")
    tree = mapping_of((mapping_of(config.state) or {}).get("options")) if isinstance(config, Made) else None
    weights = mapping_of(saved[0]) if isinstance(saved, tuple) and saved else None
    if tree is None:
        problems.append(f"'config' is {shown(config)}, expected an object of {CONFIG} with options")
    if weights is None:
        problems.append(f"'model' is {shown(saved)}, expected the weights and the metadata of a model")
    if tree is None or weights is None:
        return None
    options = Options(tree)
    key = kind = options.get("model")
    reciprocal = kind in RECIPROCAL
    if reciprocal:
        key = f"{kind}.base_model"
        kind = options.default(f"{key}.type")
    form = MODELS.get(kind) if isinstance(kind, str) else None
    if form is None:
        problems.append(f"the model {shown(kind)} is not supported")
        return None
    class_name = options.get(f"{kind}.class_name")
    if class_name not in (None, form.class_name):
        problems.append(f"the model {kind!r} has the class {shown(class_name)}, expected {form.class_name!r}")
    norm = options.default(f"{key}.l_norm") if form.has_norm else 1
    if type(norm) not in (int, float) or norm not in (1, 2):
        problems.append(f"the option '{key}.l_norm' is {shown(norm)}, expected 1 or 2")
    reader = _EmbedderReader(file, weights, options, problems)
    entities, relations = (reader.read(f"{'_base_model.' * reciprocal}_{one}_embedder", key, one) for one in PLURALS)
    if reciprocal:
        reader.compare_copies("_base_model.")
    problems += [f"the model has {shown(name)}, which is not part of {kind}" for name in reader.unread()]
    if entities is None or relations is None:
        return None
    problems += _width_problems(form, entities.width, relations.width)
    if reciprocal and relations.array.shape[0] % 2:
        problems.append(f"{relations.array.shape[0]:,} rows of relations, expected two for each relation")
    return _Model(file, content, options, form, norm, reciprocal, entities, relations)


class _EmbedderReader:
    """Reads embedders from the weights of a model."""

    def __init__(self, file: TorchFile, weights: Mapping[Any, Any], options: Options, problems: list[str]) -> None:
        self.file, self.weights, self.options, self.problems = file, weights, options, problems
        self.seen: set[str] = set()

    def read(self, prefix: str, key: str, kind: str) -> _Embeddings | None:
        """The embeddings of an embedder; or None, with the problem appended to ``problems``."""
        embedder = self.options.default(f"{key}.{kind}_embedder.type")
        if embedder is not None and embedder not in EMBEDDERS:
            self.problems.append(f"the {kind} embedder {shown(embedder)} is not supported: {', '.join(EMBEDDERS)}")
            return None
        return self._read(prefix)

    def _read(self, prefix: str) -> _Embeddings | None:
        name = next((f"{prefix}.{one}.weight" for one in ("_embeddings", "embeddings") if self._has(prefix, one)), None)
        if name is not None:
            array = self._matrix(name)
            return None if array is None else _Embeddings(array, array.shape[1])
        if not self._has(prefix, "projection"):
            self.problems.append(f"{prefix}._embeddings.weight is missing")
            return None
        base, weights = self._read(f"{prefix}.base_embedder"), self._matrix(f"{prefix}.projection.weight")
        if base is None or weights is None:
            return None
        if weights.shape[1] != base.width:
            self.problems.append(f"{weights.name} has the shape {weights.shape}, expected (any, {base.width})")
            return None
        matrix, inner = weights.whole(), base.compute
        if not np.isfinite(matrix).all():
            self.problems.append(f"{weights.name} holds NaN or infinity")
        return _Embeddings(base.array, weights.shape[0], lambda rows: projected(inner(rows), matrix))

    def _has(self, prefix: str, part: str) -> bool:
        return f"{prefix}.{part}.weight" in self.weights

    def _matrix(self, name: str) -> StoredArray | None:
        self.seen.add(name)
        try:
            array = self.file.tensor(name, self.weights[name])
        except ValueError as error:
            self.problems.append(str(error))
            return None
        if len(array.shape) == 2:
            return array
        self.problems.append(f"{name} has the shape {array.shape}, expected a matrix")
        return None

    def compare_copies(self, prefix: str) -> None:
        """A reciprocal model is saved twice: as the base model, and as itself. Both must be the same."""
        for name in [name for name in self.seen if name.removeprefix(prefix) in self.weights]:
            copy = name.removeprefix(prefix)
            if copy == name:
                continue
            one, other = self._matrix(name), self._matrix(copy)
            if one is not None and other is not None and not _same(one, other):
                self.problems.append(f"{name} and {copy} differ, but are one table in LibKGE")

    def unread(self) -> list[Any]:
        return [name for name in self.weights if name not in self.seen][:_MOST_SHOWN]


def _same(one: StoredArray, other: StoredArray) -> bool:
    if (one.offset, one.shape, one.kind) == (other.offset, other.shape, other.kind):
        return True
    return one.shape == other.shape and all(
        np.array_equal(a, b, equal_nan=True) for (_, a), (_, b) in zip(one.blocks(), other.blocks(), strict=True)
    )


def _width_problems(form: ModelForm, entity: int, relation: int) -> list[str]:
    if form.halves and entity % 2:
        return [f"{entity} coordinates of an entity, but those of {form.class_name} have two halves"]
    if entity < 1 or relation != form.width(entity):
        return [f"{relation} coordinates of a relation, expected {form.width(entity)} for {entity} of an entity"]
    return []


def _size_problems(model: _Model, graph: KnowledgeGraph) -> list[str]:
    """The tables must have as many rows as the graph and the file say."""
    dataset = mapping_of(model.content.get("dataset")) or {}
    problems = []
    for kind, what in PLURALS.items():
        rows, own, said = model.rows(kind), getattr(graph, f"num_{what}"), dataset.get(f"num_{what}")
        if rows != own:
            problems.append(f"the model has {rows:,} {what}, the graph {own:,}")
        if said is not None and said != rows:
            problems.append(f"the model has {rows:,} {what}, but its dataset has {shown(said)}")
    return problems


def _labels(model: _Model, kind: str, problems: list[str]) -> Labels | None:
    """The names of the entities or relations in the order of their rows; None if there are none."""
    saved = (mapping_of((mapping_of(model.content.get("dataset")) or {}).get("meta")) or {}).get(f"{kind}_ids")
    if saved is None:
        labels = _labels_in_file(model, kind, problems)
    else:
        try:
            labels = as_labels(saved) if isinstance(saved, list) and {type(name) for name in saved} == {str} else None
        except UnicodeError:
            labels = None
        if labels is None:
            problems.append(f"dataset.meta.{kind}_ids is not a list of names")
    if labels is not None and len(labels) != model.rows(kind):
        problems.append(f"{len(labels):,} names of {PLURALS[kind]}, but {model.rows(kind):,} rows")
        return None
    return labels


def _labels_in_file(model: _Model, kind: str, problems: list[str]) -> Labels | None:
    """The names in the dataset's folder, or beside the checkpoint."""
    named = model.options.get(f"dataset.files.{kind}_ids.filename")
    file = named if _is_name(named) else f"{kind}_ids.del"
    place = model.file.path.absolute()
    folders = [place.parent]
    dataset = model.options.get("dataset.name")
    if _is_name(dataset):
        folders += [above / "data" / dataset for above in list(place.parents)[:_FOLDERS_ABOVE]]
    found = next((folder / file for folder in folders if (folder / file).is_file()), None)
    return None if found is None else read_dictionary(found, _IDS, problems)


def _is_name(text: Any) -> bool:
    """Whether a text is the name of a file in a folder, not a path elsewhere."""
    return isinstance(text, str) and text not in ("", ".", "..") and "\0" not in text and PurePath(text).name == text


def _scorer(model: _Model, ids: RowIds, problems: list[str]) -> AnyScorer:
    """The scorer, with the ids of the graph where they are given."""
    form, entities, relations = model.form, model.entities, model.relations
    relation_ids = ids.relations
    if relation_ids is not None and model.reciprocal:
        relation_ids = np.concatenate([relation_ids, relation_ids + len(relation_ids)])
    table = read_table(
        relations.array,
        problems,
        ids=relation_ids,
        arrange=lambda rows: form.relations(relations.compute(rows), entities.width),
    )
    similarity = form.similarity(model.norm)
    if form.class_name == "TransH":
        rows = read_table(entities.array, problems, ids=ids.entities, arrange=entities.compute)
        return HyperplaneScorer(similarity, rows, table, model.reciprocal)

    def arranged(arrange: Arrange) -> Singles | StoredTable:
        def read(rows: NDArray[Any]) -> NDArray[Any]:
            return arrange(entities.compute(rows))

        return candidate_table(entities.array, problems, ids=ids.entities, arrange=read)

    heads = arranged(form.heads)
    tails = heads if form.tails is form.heads else arranged(form.tails)
    kind = ReciprocalScorer if model.reciprocal else ComposedScorer
    return kind(INTERACTIONS[form.interaction], similarity, heads.shape[1], heads, tails, table)


def _settings(model: _Model) -> dict[str, Any]:
    epoch = model.content.get("epoch")
    return {
        "source": model.file.path.name,
        "library": "LibKGE",
        "model": model.form.class_name,
        "dimension": model.entities.width,
        **({"l_norm": model.norm} if model.form.has_norm else {}),
        **({"reciprocal": True} if model.reciprocal else {}),
        **({"epoch": epoch} if type(epoch) is int and 0 <= epoch < _MOST_EPOCHS else {}),
    }
