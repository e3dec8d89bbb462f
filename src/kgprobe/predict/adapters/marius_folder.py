"""Model folders of Marius: embeddings.bin, model.pt, full_config.yaml, and files of names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kgprobe.bounded_files import read_bounded
from kgprobe.errors import DataError, UsageError, nearest
from kgprobe.graph.text_files import Layout, read_dictionary
from kgprobe.predict.adapters.embedding_files import RowIds, candidate_table, read_table, refuse_misfit
from kgprobe.predict.adapters.interactions import INTERACTIONS, ComposedScorer, Interaction
from kgprobe.predict.adapters.score_files import ArraySpec, spec_problems
from kgprobe.predict.pickled_values import Made, mapping_of
from kgprobe.predict.scorers import AnyScorer, Dot, FarthestNorm, Side, Similarity
from kgprobe.predict.stored_arrays import StoredArray, open_at, reading
from kgprobe.predict.torch_files import open_torch_file

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph
    from kgprobe.graph.names import Labels

CONFIG, EMBEDDINGS, MODEL = "full_config.yaml", "embeddings.bin", "model.pt"
NAMES = {"entities": "node_mapping.txt", "relations": "relation_mapping.txt"}
_PARAMETERS = ("relation_embeddings", "inverse_relation_embeddings")
_MOST_BYTES = 1 << 17
_NUMBER = np.dtype("<f4")
_LAYOUT = Layout(
    {"label": False, "id": True},
    "name,id",
    ",",
    lambda line: line.rsplit(",", 1),
    careful=re.compile(rb",(?:[+-]|0[xX])"),  # what pyarrow reads as ids
)

DECODERS: dict[str, tuple[str, Similarity]] = {
    "DISTMULT": ("DistMult", Dot()),
    "COMPLEX": ("ComplEx", Dot()),
    "TRANSE": ("TransE", FarthestNorm(None)),
}
"""The model of each decoder, and how it compares: its TransE adds the distance, so that the farthest is best."""


def is_marius(folder: str | PathLike[str]) -> bool:
    """Whether a folder has the embeddings or the configuration that Marius saves."""
    return any((Path(folder) / file).is_file() for file in (EMBEDDINGS, CONFIG))


def open_marius(
    folder: str | PathLike[str], graph: KnowledgeGraph, sides: Sequence[Side]
) -> tuple[str, AnyScorer, dict[str, Any]]:
    """Open embeddings.bin, model.pt and full_config.yaml; rows are matched by the files of names, if there are any.

    Args:
        folder: The folder.
        graph: The graph.
        sides: The sides that will be ranked. Heads need inverse relations.

    Returns:
        The name of the model, its scorer, and its metadata.

    Raises:
        DataError: Files are missing or damaged, the model is not supported, or it does not fit the graph.
        UsageError: PyYAML is not installed.
    """
    place = Path(folder)
    problems: list[str] = []
    config = _Config.read(place / CONFIG, problems)
    names = {
        what: read_dictionary(place / file, _LAYOUT, problems) if (place / file).exists() else None
        for what, file in NAMES.items()
    }
    parameters = _parameters(place / MODEL, problems)
    embeddings = None if config is None else _embeddings(place / EMBEDDINGS, config, problems)
    if config is None or embeddings is None or problems:
        remedy = f"the folder needs {EMBEDDINGS}, {MODEL} and {CONFIG}, all of one model of embeddings without layers"
        raise DataError(f"{place}: not a model of Marius that can be ranked", problems, remedy)
    if "head" in sides and not config.ranks_heads:
        raise DataError(
            f"{place}: no scores for heads",
            ["the model was trained without inverse relations (inverse_edges), so Marius scores tails alone"],
            "rank the tails alone: `sides='tail'`",
        )
    scorer, ids = _scorer(place, config, embeddings, parameters, names, graph)
    settings = {"library": "Marius", "model": scorer.interaction.name, "dimension": config.dimension}
    return scorer.interaction.name, scorer, {"source": place.name, **settings, **ids.settings}


def _scorer(
    place: Path,
    config: _Config,
    embeddings: StoredArray,
    parameters: Mapping[str, StoredArray],
    names: Mapping[str, Labels | None],
    graph: KnowledgeGraph,
) -> tuple[ComposedScorer, RowIds]:
    used = _PARAMETERS[: 1 + config.ranks_heads]
    tables = {name: parameters[name] for name in used if name in parameters}
    width = (config.dimension,)
    specs = [
        ArraySpec(embeddings.name, "entities", graph.num_entities, width),
        *(ArraySpec(name, "relations", graph.num_relations, width) for name in used),
    ]
    problems = spec_problems(specs, {array.name: (array.shape, array.kind) for array in (embeddings, *tables.values())})
    ids = RowIds.of(names["entities"], names["relations"], graph, problems)
    refuse_misfit(place, graph, problems)
    model, similarity = DECODERS[config.decoder]
    interaction = reciprocal(INTERACTIONS[model], graph.num_relations)
    entities = candidate_table(embeddings, problems, ids=ids.entities, arrange=interaction.arrange_entity)
    relations = [
        read_table(table, problems, ids=ids.relations, arrange=interaction.arrange_relation)
        for table in tables.values()
    ]
    refuse_misfit(place, graph, problems)
    table = np.concatenate(relations)
    return ComposedScorer(interaction, similarity, config.dimension, entities, entities, table), ids


def reciprocal(interaction: Interaction, relations: int) -> Interaction:
    """The model whose head queries are tail queries of inverse relations, which follow the relations in their table."""
    compose = interaction.compose
    return replace(
        interaction,
        compose=lambda side, given, table, ids: compose(
            "tail", given, table, ids if side == "tail" else ids + relations
        ),
    )


@dataclass(frozen=True)
class _Config:
    """What full_config.yaml says of a model.

    Attributes:
        decoder: The name of the decoder.
        dimension: Coordinates of an embedding.
        nodes: The number of entities.
        ranks_heads: Whether the model scores heads.
    """

    decoder: str
    dimension: int
    nodes: int
    ranks_heads: bool

    @classmethod
    def read(cls, path: Path, problems: list[str]) -> _Config | None:
        """From the file; or None, with all problems appended to ``problems``."""
        values = _Values(path.name, _read_yaml(path, problems))
        if values.content is None:
            return None
        decoder = str(values.at("model", "decoder", "type")).upper()
        if decoder not in DECODERS:
            values.problems.append(f"{path.name}: no decoder is called {decoder[:60]!r}{nearest(decoder, DECODERS)}")
        inverse = values.at("model", "decoder", "options", "inverse_edges", usual="true")
        if inverse not in ("true", "false"):
            values.problems.append(f"{path.name}: model.decoder.options.inverse_edges is neither true nor false")
        nodes = values.number("storage", "dataset", "num_nodes")
        relations = values.number("storage", "dataset", "num_relations")
        if values.at("storage", "embeddings", "options", "dtype", usual="float") not in ("float", "float32"):
            values.problems.append(f"{path.name}: storage.embeddings.options.dtype is not float")
        dimension = _dimension(values)
        if decoder == "COMPLEX" and dimension % 2:
            values.problems.append(
                f"{path.name}: {dimension} coordinates, but ComplEx has as many imaginary as real parts"
            )
        problems += values.problems
        # Marius leaves the relation out if there is only one, and then never scores heads.
        return None if values.problems else cls(decoder, dimension, nodes, inverse == "true" and relations > 1)


def _dimension(values: _Values) -> int:
    """The dimension of the embeddings, if they are all that the encoder has."""
    stages = values.at("model", "encoder", "layers")
    layers = [layer for stage in stages for layer in stage] if _are_lists(stages) else []
    layer = _Values(values.name, layers[0] if len(layers) == 1 else None)
    plain = (
        str(layer.at("type", usual="")).upper() == "EMBEDDING"
        and layer.at("bias", usual="false") == "false"
        and str(layer.at("activation", usual="none")).upper() == "NONE"
    )
    if not plain:
        values.problems.append(
            f"{values.name}: model.encoder.layers is not one EMBEDDING layer without bias and activation: "
            "the outputs of other encoders are not saved here"
        )
        return 0
    size = layer.number("output_dim")
    values.problems += layer.problems
    return size


def _are_lists(stages: Any) -> bool:
    return isinstance(stages, list) and all(isinstance(stage, list) for stage in stages)


@dataclass
class _Values:
    """Nested mappings of texts, from a YAML file, and their problems."""

    name: str
    content: Any

    def __post_init__(self) -> None:
        self.problems: list[str] = []

    def at(self, *keys: str, usual: str | None = None) -> Any:
        """The value at these keys; without them, the usual one."""
        value = self.content
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return usual if value is None else value

    def number(self, *keys: str) -> int:
        """The positive integer at these keys; 0 with a problem otherwise."""
        value = self.at(*keys)
        if isinstance(value, str) and value.isascii() and value.isdigit() and 0 < len(value) < 16 and int(value):
            return int(value)
        said = repr(value)[:60] if isinstance(value, str) else "a group" if value else "missing"
        self.problems.append(f"{self.name}: {'.'.join(keys)} is {said}, expected a positive integer")
        return 0


def _read_yaml(path: Path, problems: list[str]) -> dict[str, Any] | None:
    """A YAML file with all values as texts; or None, with the problem appended to ``problems``."""
    try:
        import yaml
    except ModuleNotFoundError:
        raise UsageError(f"{path}: it needs PyYAML", remedy="pip install 'kgprobe[marius]'") from None
    try:
        with reading(path):
            content = yaml.load(read_bounded(path, _MOST_BYTES), yaml.BaseLoader)
    except DataError as error:
        problems += [f"{path.name}: {problem}" for problem in error.problems]
        return None
    except yaml.YAMLError as error:
        problems.append(f"{path.name}: not YAML: {' '.join(str(error).split())[:200]}")
        return None
    if not isinstance(content, dict):
        problems.append(f"{path.name}: it has no options")
        return None
    return content


def _parameters(path: Path, problems: list[str]) -> Mapping[str, StoredArray]:
    """The parameters of the decoder: those of the module in a TorchScript archive, without those of its children."""
    parameters = {}
    try:
        with reading(path):
            file = open_torch_file(path)
            module = mapping_of(file.value.state) if isinstance(file.value, Made) else None
            if module is None:
                raise ValueError("not a TorchScript archive: its data.pkl describes no module")
            for name in _PARAMETERS:
                try:
                    if name in module:
                        parameters[name] = file.tensor(name, module[name])
                except ValueError as error:
                    problems.append(f"{path.name}: {error}")
    except DataError as error:
        problems += [f"{path.name}: {problem}" for problem in error.problems]
    return parameters


def _embeddings(path: Path, config: _Config, problems: list[str]) -> StoredArray | None:
    """The embeddings, which are in a file without a header; or None, with the problem appended to ``problems``."""
    size = path.stat().st_size if path.is_file() else None
    expected = config.nodes * config.dimension * _NUMBER.itemsize
    if size != expected:
        found = "no such file" if size is None else f"{size:,} bytes"
        problems.append(
            f"{path.name}: {found}, expected {expected:,} bytes: "
            f"{config.nodes:,} x {config.dimension:,} numbers of float32 by {CONFIG}"
        )
        return None
    shape = (config.nodes, config.dimension)
    return StoredArray(path, path.name, "float32", _NUMBER, shape, partial(open_at, path, 0), 0)
