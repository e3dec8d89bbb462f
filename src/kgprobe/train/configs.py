"""Settings that are known for a graph: found by search and come with the package, or sensible for its size."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgprobe.graph import KnowledgeGraph
from kgprobe.train.defaults import Size, defaults
from kgprobe.train.sources import MEASURED, Source, from_file, from_values
from kgprobe.train.toml import TomlFile, read_toml

FOLDER = Path(__file__).parent.parent / "configs"
"""One folder for each model, with one file for each graph."""


@dataclass(frozen=True)
class Known:
    """What is known of settings for a model and a graph before anybody asks for others.

    Attributes:
        sources: Where settings come from, the weakest first.
        measured: What the strongest file says that its settings led to.
        notes: What a person should know of where they come from.
    """

    sources: Sequence[Source]
    measured: Mapping[str, Any]
    notes: Sequence[str]


def known_settings(model: str, graph: KnowledgeGraph, config: Path | None = None, folder: Path = FOLDER) -> Known:
    """The settings for a model and a graph: of a file, of the package, and for any graph of that size.

    Args:
        model: Name of the model.
        graph: The graph.
        config: A file of settings.
        folder: Where the settings of the package are.

    Example:
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], name="unheard of")
        >>> known_settings("RotatE", graph).notes
        ['settings: defaults for 2 entities and 1 facts']
    """
    size = Size.of(graph)
    notes: list[str] = []
    files: list[tuple[str, TomlFile]] = []
    if (path := packaged(model, graph.name, folder)) is not None:
        name, file = f"configs/{path.parent.name}/{path.name}", read_toml(path)
        if _fits(file, graph):
            files.append((name, file))
        else:
            notes.append(
                f"{name} is for another graph of that name and was not used; --config {path} uses it all the same"
            )
    if config is not None:
        files.append((str(config), read_toml(config)))
        if not _fits(files[-1][1], graph):
            notes.append(f"{config} was written for a graph of other content")
    sources = [from_values(f"defaults for {size}", defaults(model, size))]
    sources += [from_file(file, name) for name, file in files]
    notes.append("settings: " + ", then ".join(source.name for source in reversed(sources)))
    measured = files[-1][1].tables.get(MEASURED, {}) if files else {}
    return Known(sources, measured, notes)


def packaged(model: str, graph: str, folder: Path = FOLDER) -> Path | None:
    """The file that comes with the package for a model and graphs of a name, if there is one.

    Example:
        >>> packaged("RotatE", "unheard of") is None
        True
    """
    files = {_plain(path.stem): path for path in sorted((folder / model.lower()).glob("*.toml"))}
    return files.get(_plain(graph))


def _fits(file: TomlFile, graph: KnowledgeGraph) -> bool:
    """Whether a file of settings is for a graph of this content, or for any."""
    wanted = file.values.get("graph_hash")
    return wanted is None or wanted == graph.content_hash


def _plain(name: str) -> str:
    """A name without what people write in different ways, as in FB15k-237 and fb15k_237."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
