"""Checkpoint folders of DGL-KE: a table of entities, a table of relations, and config.json."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import AnyInts, Floats
from kgprobe.errors import DataError, nearest
from kgprobe.graph.text_files import Layout, read_dictionary
from kgprobe.graph.triple_files import OPENKE_DICTIONARY
from kgprobe.predict.adapters.embedding_files import (
    ENTITY,
    RELATION,
    RowIds,
    candidate_table,
    read_model,
    read_table,
    refuse_misfit,
)
from kgprobe.predict.adapters.interactions import (
    INTERACTIONS,
    Header,
    Interaction,
    relation_product,
    row_by_row,
)
from kgprobe.predict.adapters.rotate_checkpoint import (
    CONFIG,
    EPSILON,
    OPTIONS,
    open_files,
    read_options,
    rotations,
    width_problems,
)
from kgprobe.predict.adapters.score_files import ArraySpec, spec_problems
from kgprobe.predict.scorers import AnyScorer, ClampedDot, GroupNorm, Side, Similarity, Singles
from kgprobe.predict.stored_arrays import ArrayFile, StoredArray, StoredTable, stored_bytes

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph
    from kgprobe.graph.names import Labels

ENDING = "_entity.npy"
PROJECTION = "projection"
_LIMIT = 20.0
_BLOCK_NUMBERS = 1 << 20

_MAPS = {
    "entities": (("emp_file", "emap_file"), ("entities.tsv", "entities.dict")),
    "relations": (("rmap_file",), ("relations.tsv", "relations.dict")),
}
"""The options that name the files of names, by version, and the names of these files without such an option."""

_COUNTED = ("entity2id.txt", "relation2id.txt")
"""Those of Freebase, which begin with their number of lines, and have the label first."""


def is_dgl_ke(folder: str | PathLike[str]) -> bool:
    """Whether a folder has a table of entities as DGL-KE names it: DATASET_MODEL_entity.npy."""
    return Path(folder).is_dir() and any(Path(folder).glob(f"*{ENDING}"))


def open_dgl_ke(folder: str | PathLike[str], graph: KnowledgeGraph) -> tuple[str, AnyScorer, dict[str, Any]]:
    """Open DATASET_MODEL_entity.npy, DATASET_MODEL_relation.npy and config.json.

    Rows are matched by the files of names that the configuration mentions, beside the checkpoint or where the data of
    the training was. Without such a file, they are in the order of the ids of the graph.

    Returns:
        The name of the model, its scorer, and its metadata.

    Raises:
        DataError: Files are missing or damaged, the model is unknown, or it does not fit the graph.

    Example:
        >>> import json, tempfile
        >>> from kgprobe.graph import KnowledgeGraph
        >>> folder = Path(tempfile.mkdtemp())
        >>> np.save(folder / "FB15k_TransE_l1_entity", np.ones((2, 4), dtype=np.float32))
        >>> np.save(folder / "FB15k_TransE_l1_relation", np.zeros((1, 4), dtype=np.float32))
        >>> config = {"dataset": "FB15k", "model": "TransE_l1", "emb_size": 4, "gamma": 12.0}
        >>> _ = (folder / "config.json").write_text(json.dumps(config))
        >>> name, scorer, settings = open_dgl_ke(folder, KnowledgeGraph.from_triples(train=[[0, 0, 1]]))
        >>> name, scorer.similarity
        ('TransE_l1', GroupNorm(size=1, gamma=12.0))
    """
    place = Path(folder)
    problems: list[str] = []
    config = _Config.read(place / CONFIG, problems)
    arrays: dict[str, StoredArray] = {}
    names: dict[str, Labels | None] = {}
    if config is not None:
        arrays = open_files({name: place / file for name, file in config.files.items()}, problems)
        names = {what: config.names(place, what, problems) for what in _MAPS}
        problems += config.width_problems(arrays[ENTITY]) if ENTITY in arrays else []
    if config is None or problems:
        remedy = f"the folder needs the files that DGL-KE saved for one model: DATASET_MODEL{ENDING}, ..., and {CONFIG}"
        raise DataError(f"{place}: not a checkpoint of DGL-KE", problems, remedy)
    file = ArrayFile(place, arrays)
    if config.model == "TransR":
        return _open_trans_r(file, config, names, graph)
    interaction = MODELS[config.model](config)
    settings = config.settings | ({"p": 1 if config.model == "TransE_l1" else 2} if "p" in interaction.needs else {})
    header = Header(interaction, interaction.similarity(settings), settings, config.model, **names)
    return read_model(file, header, graph, np.empty((0, 3), dtype=np.int64))


@dataclass(frozen=True)
class _Config:
    """The training options of a model.

    Attributes:
        model: The name of the model.
        dataset: The name of the dataset, with which file names begin.
        hidden: The hidden dimension.
        gamma: The margin of the scores.
        double_ent: Whether entities have twice the hidden dimension.
        delimiter: What separates the columns of text files; None for a tabulator.
        options: All options.
    """

    model: str
    dataset: str
    hidden: int
    gamma: float
    double_ent: bool | None
    delimiter: str | None
    options: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path, problems: list[str]) -> _Config | None:
        """From config.json of any version; or None, with all problems appended to ``problems``."""
        options = read_options(path, problems)
        if options is None:
            return None
        values = {name: _first(options, keys) for name, (keys, _, _) in _KEYS.items()}
        wrong = [
            f"{path.name}: {' or '.join(map(repr, keys))} is {repr(values[name])[:60]}, expected {expected}"
            for name, (keys, fits, expected) in _KEYS.items()
            if not fits(values[name])
        ]
        model = values["model"]
        if isinstance(model, str) and model not in MODELS:
            wrong.append(f"{path.name}: no model of DGL-KE is called {model[:60]!r}{nearest(model, MODELS)}")
        problems += wrong
        return None if wrong else cls(**values, options=options)

    @property
    def files(self) -> dict[str, str]:
        """The file of each array."""
        start = f"{self.dataset}_{self.model}"
        files = {ENTITY: f"{start}{ENDING}", RELATION: f"{start}_relation.npy"}
        return files | ({PROJECTION: f"{start}{PROJECTION}.npy"} if self.model == "TransR" else {})

    def names(self, place: Path, what: str, problems: list[str]) -> Labels | None:
        """The names of the rows, from the first of the possible files that exists; None if there is none."""
        keys, usual = _MAPS[what]
        given = _first(self.options, keys)
        data = self.options.get("data_path")
        folders = [place]
        if isinstance(given, str) and isinstance(data, str):
            folders += [Path(data), Path(data, self.dataset)]
        files = [Path(given).name] if isinstance(given, str) else usual
        paths = (folder / file for folder in folders for file in files)
        path = next((path for path in paths if os.path.isfile(path)), None)
        if path is None:
            return None
        return read_dictionary(path, OPENKE_DICTIONARY if path.name in _COUNTED else self._layout, problems)

    @property
    def _layout(self) -> Layout:
        """The layout of the lines of names."""
        delimiter = self.delimiter or "\t"
        described = "id<TAB>label" if delimiter == "\t" else f"id{delimiter}label"
        return Layout({"id": True, "label": False}, described, delimiter, lambda line: line.split(delimiter))

    def width_problems(self, entities: StoredArray) -> list[str]:
        """Why the entities were not trained with these options."""
        problems = width_problems(entities, self.hidden, self.double_ent)
        if not problems and self.model == "SimplE" and entities.shape[1] % 2:
            problems.append(f"{entities.name}: {entities.shape[1]} coordinates, but SimplE has two halves")
        return problems

    @property
    def settings(self) -> dict[str, Any]:
        """Metadata of the model."""
        settings = {"library": "DGL-KE", "model": self.model, "gamma": self.gamma, "hidden_dim": self.hidden}
        return settings | ({"notes": [_DISTRIBUTED]} if self._is_distributed else {})

    @property
    def _is_distributed(self) -> bool:
        """Whether several machines trained the model. Only they, and the trainer of wikikg90M, save no names."""
        unnamed = any(key in self.options and self.options[key] is None for key in _MAPS["entities"][0])
        return "ip_config" in self.options or (unnamed and not self.dataset.startswith("wikikg90M"))


_DISTRIBUTED = "a distributed run: DGL-KE leaves the last row of the entities, and the projections of TransR, random"


def _first(options: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((options[key] for key in keys if options.get(key) is not None), None)


def _is_file_name(value: Any) -> bool:
    """Whether this names a file without its folder, so that no other folder is read."""
    return isinstance(value, str) and value not in ("", ".", "..") and not set(value) & set("/\\\0")


def _is_delimiter(value: Any) -> bool:
    return value is None or (isinstance(value, str) and len(value) == 1 and value.isascii() and value not in '\r\n\0"')


_KEYS: dict[str, tuple[tuple[str, ...], Callable[[Any], bool], str]] = {
    "model": (("model_name", "model"), lambda value: isinstance(value, str), "the name of a model"),
    "dataset": (("dataset",), _is_file_name, "the name with which the files begin"),
    "hidden": (("hidden_dim", "emb_size"), *OPTIONS["hidden_dim"]),
    "gamma": (("gamma",), *OPTIONS["gamma"]),
    "double_ent": (("double_ent",), lambda value: value in (None, False, True), "true or false"),
    "delimiter": (("delimiter",), _is_delimiter, "one character"),
}
"""The option, in the versions of DGL-KE, of each value, its validator and its description."""


def _translated(_config: _Config) -> Interaction:
    return INTERACTIONS["TransE"]


def _as_published(config: _Config) -> Interaction:
    return INTERACTIONS[config.model]


def _rotated(config: _Config) -> Interaction:
    unit = (config.gamma + EPSILON) / config.hidden / math.pi
    return replace(INTERACTIONS["RotatE"], arrange_relation=partial(rotations, unit=unit))


def _bilinear(_config: _Config) -> Interaction:
    """RESCAL, whose matrices are stored as rows of one table."""
    return replace(
        INTERACTIONS["RESCAL"],
        relation_shape=lambda dimension: (dimension * dimension,),
        arrange_relation=lambda rows: rows.reshape(len(rows), *2 * [math.isqrt(rows.shape[1])]),
    )


def _simple(side: Side, given: Floats, relation: Floats) -> Floats:
    """Half the sum of h1 r1 t2 and h2 r2 t1, as a product with the halves of the other entity in their order."""
    first, second = np.split(given, 2, axis=1)
    forward, backward = np.split(relation, 2, axis=1)
    parts = [second * backward, first * forward] if side == "tail" else [forward * second, backward * first]
    product: Floats = np.concatenate(parts, axis=1) / 2
    return product


def _clamped(_settings: Mapping[str, Any]) -> Similarity:
    return ClampedDot(_LIMIT)


_SIMPLE = Interaction("SimplE", row_by_row(_simple), _clamped)

MODELS: dict[str, Callable[[_Config], Interaction]] = {
    "TransE": _translated,
    "TransE_l1": _translated,
    "TransE_l2": _translated,
    "TransR": _translated,
    "DistMult": _as_published,
    "ComplEx": _as_published,
    "RotatE": _rotated,
    "RESCAL": _bilinear,
    "SimplE": lambda config: _SIMPLE,
}


def _open_trans_r(
    file: ArrayFile, config: _Config, names: Mapping[str, Labels | None], graph: KnowledgeGraph
) -> tuple[str, AnyScorer, dict[str, Any]]:
    arrays = file.arrays
    entity, relation = (arrays[name].shape[1] if len(arrays[name].shape) == 2 else 0 for name in (ENTITY, RELATION))
    specs = [
        ArraySpec(ENTITY, "entities", graph.num_entities, (entity,)),
        ArraySpec(RELATION, "relations", graph.num_relations, (relation,)),
        ArraySpec(PROJECTION, "relations", graph.num_relations, (entity * relation,)),
    ]
    problems = spec_problems(specs, file.shapes)
    ids = RowIds.of(names["entities"], names["relations"], graph, problems)
    refuse_misfit(file.path, graph, problems)
    scorer = TransRScorer(
        GroupNorm(1, config.gamma),
        candidate_table(arrays[ENTITY], problems, ids=ids.entities),
        read_table(arrays[RELATION], problems, ids=ids.relations),
        candidate_table(arrays[PROJECTION], problems, ids=ids.relations),
    )
    refuse_misfit(file.path, graph, problems)
    return config.model, scorer, {"source": file.path.name, **config.settings, **ids.settings}


@dataclass(eq=False)
class TransRScorer:
    """TransR: score = gamma - ||h P + r - t P||_1 with a matrix P for each relation.

    Attributes:
        similarity: The L1 distance.
        entities: The entities [entities, dimension], in memory or in files.
        relations: The relations [relations, relation dimension].
        projections: The rows of each P one after the other [relations, dimension x relation dimension].
    """

    similarity: Similarity
    entities: Singles | StoredTable
    relations: Singles
    projections: Singles | StoredTable

    @property
    def stored_bytes(self) -> int:
        """Bytes of embeddings that stay in files."""
        return stored_bytes(self.entities)

    def encode_queries(self, side: Side, given: AnyInts, relation: AnyInts) -> Singles:
        queries = np.empty((len(given), self.relations.shape[1]), dtype=np.float32)
        for block in self._blocks(len(given)):
            projected = self._projected(self.entities[given[block]], relation[block])
            translation = self.relations[relation[block]].astype(np.float64)
            with np.errstate(over="ignore"):  # infinite scores are allowed
                queries[block] = projected + translation if side == "tail" else projected - translation
        return queries

    def candidates_for(self, side: Side, relation: int) -> Singles | StoredTable:
        def rows(index: slice | AnyInts) -> Floats:
            given = self.entities[index]
            return self._projected(given, np.full(len(given), relation))

        shape = (self.entities.shape[0], self.relations.shape[1])
        if isinstance(self.entities, StoredTable):
            return StoredTable(self.entities.path, f"{self.entities.name} x {PROJECTION} {relation}", shape, rows)
        table = np.empty(shape, dtype=np.float32)
        for block in self._blocks(len(table)):
            with np.errstate(over="ignore"):
                table[block] = rows(block)
        return table

    def _blocks(self, rows: int) -> list[slice]:
        step = max(1, _BLOCK_NUMBERS // max(self.entities.shape[1], self.relations.shape[1]))
        return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]

    def _projected(self, rows: NDArray[Any], relation: AnyInts) -> Floats:
        """Each row times the projection of its relation."""
        used, which = np.unique(relation, return_inverse=True)
        shape = (len(used), self.entities.shape[1], self.relations.shape[1])
        return relation_product(rows, self.projections[used].reshape(shape), which)
