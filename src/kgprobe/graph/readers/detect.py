"""The formats of graph directories, and which of them a directory is in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kgprobe.errors import DataError
from kgprobe.graph.readers import labelled, openke, parquet

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kgprobe.graph.graph import KnowledgeGraph


@dataclass(frozen=True)
class Reader:
    """One format: what it looks like, whether a directory is in it, and how to read that."""

    files: str
    recognises: Callable[[Path], bool]
    read: Callable[[Path, str], KnowledgeGraph]


READERS = (
    Reader("train/valid/test/entities/relations.parquet", parquet.recognises, parquet.read),
    Reader("train2id.txt, entity2id.txt, relation2id.txt (OpenKE)", openke.recognises, openke.read),
    Reader("train.txt or train.tsv (labels, perhaps .gz)", labelled.recognises, labelled.read),
)
"""In order of preference, where a directory holds a graph in several formats."""


def find_reader(directory: Path) -> Reader | None:
    """The reader of the format that a directory is in, or None."""
    return next((reader for reader in READERS if reader.recognises(directory)), None)


def read_directory(directory: Path, name: str) -> KnowledgeGraph:
    """Read a graph in whichever of the known formats it is."""
    reader = find_reader(directory)
    if reader is None:
        raise DataError(
            f"{directory}: no graph in a known format",
            [*_contents(directory), *(f"not there: {reader.files}" for reader in READERS)],
            "name a directory that has the files of one of these formats",
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
    found = [f"files found: {shown or 'none'}"]
    return [*found, f"graphs one directory below: {', '.join(inside[:10])}"] if inside else found
