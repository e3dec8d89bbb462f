"""Find a graph by directory or by name, recognise its format, and load it."""

from __future__ import annotations

import difflib
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, overload

from kgprobe.errors import DataError, UsageError
from kgprobe.graph.array_graph import is_array_graph, read_array_graph
from kgprobe.graph.graph_directory import GRAPH_FILES
from kgprobe.graph.knowledge_graph import KnowledgeGraph
from kgprobe.graph.name_files import recognised_files
from kgprobe.graph.name_matching import NamesLike, as_sources
from kgprobe.graph.parquet_graph import is_parquet_graph, read_parquet_graph
from kgprobe.graph.triple_files import is_labelled, is_openke, read_labelled, read_openke
from kgprobe.graph.triple_sources import is_pykeen

if TYPE_CHECKING:
    from pykeen.datasets import Dataset
    from pykeen.triples import CoreTriplesFactory

GraphLike: TypeAlias = "KnowledgeGraph | str | os.PathLike[str] | Dataset | CoreTriplesFactory"
"""A graph, the directory or name of one, or a PyKEEN dataset: what every public argument ``graph`` accepts."""

FAMILY_TREE = "family-tree"
"""Name of the built-in graph, which needs no files."""


@dataclass(frozen=True)
class Reader:
    """A graph format: its files, whether a directory has them, and how they are read."""

    files: str
    recognises: Callable[[Path], bool]
    read: Callable[[Path, str], KnowledgeGraph]


READERS = (
    Reader("train/valid/test/entities/relations.parquet", is_parquet_graph, read_parquet_graph),
    Reader("train/valid/test.npy, graph.json", is_array_graph, read_array_graph),
    Reader("train2id.txt, entity2id.txt, relation2id.txt (OpenKE)", is_openke, read_openke),
    Reader("train.txt, train.tsv or train.csv (labels, perhaps .gz)", is_labelled, read_labelled),
)
"""In order of preference, if a directory has a graph in several formats."""


def find_reader(directory: Path) -> Reader | None:
    return next((reader for reader in READERS if reader.recognises(directory)), None)


def read_directory(directory: Path, name: str) -> KnowledgeGraph:
    """Read a graph directory in any known format."""
    reader = find_reader(directory)
    if reader is None:
        raise DataError(
            f"{directory}: no graph in a known format",
            [*_contents(directory), *(f"missing: {reader.files}" for reader in READERS)],
            "give a directory that has the files of one of these formats",
        )
    return reader.read(directory, name)


def _contents(directory: Path) -> list[str]:
    try:
        entries = sorted(directory.iterdir())
    except OSError as error:
        return [f"cannot be listed ({error})"]
    files = [path.name for path in entries if not path.is_dir()]
    inside = [path.name for path in entries if path.is_dir() and find_reader(path)]
    shown = ", ".join(files[:10]) + (f" and {len(files) - 10:,} more" if len(files) > 10 else "")
    below = [f"graphs one directory below: {', '.join(inside[:10])}"] if inside else []
    return [f"files found: {shown or 'none'}", *below]


@overload
def as_graph(graph: GraphLike) -> KnowledgeGraph: ...


@overload
def as_graph(graph: None) -> None: ...


def as_graph(graph: GraphLike | None) -> KnowledgeGraph | None:
    """Return the graph itself, or load it by directory or name, or take it from PyKEEN; None stays None.

    Example:
        >>> as_graph(KnowledgeGraph.from_triples(train=[[0, 0, 1]], name="tiny")).name
        'tiny'
    """
    if graph is None or isinstance(graph, KnowledgeGraph):
        return graph
    if isinstance(graph, str | os.PathLike):
        return load_graph(graph)
    if is_pykeen(graph):
        return KnowledgeGraph.from_pykeen(graph)
    kind = type(graph).__name__
    raise UsageError(
        f"`graph` is a {kind}", remedy="pass a KnowledgeGraph, the directory or name of one, or a PyKEEN dataset"
    )


def load_graph(source: str | os.PathLike[str], *, names: NamesLike | Sequence[NamesLike] = ()) -> KnowledgeGraph:
    r"""Load a graph from a directory, or by name.

    A name is looked up in each directory of the path list KGPROBE_DATA, directly or under its ``graphs/``;
    ``family-tree`` is generated. `READERS` lists the formats of directories. Files of names for people are recognised
    beside the triples, and for ``graphs/NAME`` also in ``names/NAME``; one that cannot be used gives a warning.

    Args:
        source: Directory or name of the graph.
        names: One or more sources of names, as for `KnowledgeGraph.with_names`.

    Example:
        >>> import tempfile
        >>> directory = Path(tempfile.mkdtemp()) / "tiny"
        >>> directory.mkdir()
        >>> _ = (directory / "train.txt").write_text("Ada\tknows\tBob\n")
        >>> graph = load_graph(directory)
        >>> graph.name, graph.entity_label([0, 1])
        ('tiny', ['Ada', 'Bob'])
    """
    try:
        graph = _load(source)
    except OSError as error:  # no permission, or not a valid name
        raise DataError(f"{source}: cannot be read", [str(error)], "give a directory that you may read") from None
    return graph.with_names(*as_sources(names))


def _load(source: str | os.PathLike[str]) -> KnowledgeGraph:
    directory = find_graph(source)
    if directory is None:
        from kgprobe.graph.family_tree import family_tree

        return family_tree()
    absolute = Path(os.path.abspath(directory))
    return _with_recognised_names(read_directory(directory, absolute.name), absolute)


def find_graph(source: str | os.PathLike[str]) -> Path | None:
    """The directory of a graph; None for the built-in graph, which has none.

    Raises:
        DataError: There is no such graph.
    """
    tried = places(source)
    directory = next((place for place in tried if place.is_dir()), None)
    if directory is None and os.fspath(source) != FAMILY_TREE:
        raise _not_found(os.fspath(source), tried)
    return directory


def _with_recognised_names(graph: KnowledgeGraph, directory: Path) -> KnowledgeGraph:
    """The graph with the names of recognised files, unless it has names of its own."""
    if graph.entity_names is not None or graph.relation_names is not None:
        return graph
    for file in _name_files(directory)[::-1]:  # later names replace earlier ones
        try:
            graph = graph.with_names(file)
        except DataError as error:
            reason = f" ({error.problems[0]})" if error.problems else ""
            warnings.warn(f"{error.title}{reason}; names are left out", stacklevel=4)
    return graph


def _name_files(directory: Path) -> list[Path]:
    """The recognised files of names of a graph directory, the preferred ones first."""
    beside = directory.parent.parent / "names" / directory.name if directory.parent.name == "graphs" else None
    return [*recognised_files(directory), *(recognised_files(beside) if beside else [])]


def places(source: str | os.PathLike[str]) -> list[Path]:
    """Directories that are tried for a graph of this name.

    Example:
        >>> places("tiny")[0].as_posix()
        'tiny'
    """
    path = Path(os.path.expanduser(source))
    if path.is_absolute():
        return [path]
    return [path, *(folder / path for root in _roots() for folder in (root, root / "graphs"))]


def graph_files(source: str | os.PathLike[str]) -> list[Path]:
    """The files of a graph directory, with those that would be read if they existed; none for a graph without one.

    Example:
        >>> graph_files("no such graph")
        []
    """
    directory = next((place for place in places(source) if place.is_dir()), None)
    if directory is None:
        return []
    shared = [directory.parent / f"{kind}.parquet" for kind in ("entities", "relations")]
    names = _name_files(Path(os.path.abspath(directory)))
    return [*(directory / name for name in GRAPH_FILES), *(file for file in shared if file.exists()), *names]


def _roots() -> list[Path]:
    listed = os.environ.get("KGPROBE_DATA", "").split(os.pathsep)
    return [Path(os.path.expanduser(entry)) for entry in listed if entry]


def _known_names() -> list[str]:
    folders = [folder for root in _roots() for folder in (root, root / "graphs") if folder.is_dir()]
    names = {path.name for folder in folders for path in folder.iterdir() if path.is_dir() and find_reader(path)}
    return sorted(names | {FAMILY_TREE})


def _not_found(source: str, tried: list[Path]) -> DataError:
    files = [place for place in tried if place.exists()]
    problems = [f"{file} is a file" for file in files] or [f"no directory {place}" for place in tried]
    if not _roots():
        problems.append("KGPROBE_DATA is not set, so no other directory is searched")
    known = _known_names()
    near = difflib.get_close_matches(Path(source).name, known, n=3, cutoff=0.5)
    problems.append(f"nearest known graphs: {', '.join(near)}" if near else f"known graphs: {', '.join(known)}")
    remedy = "give the directory of a graph, or set KGPROBE_DATA to a directory that contains graphs"
    return DataError(f"{source}: no such graph", problems, remedy)
