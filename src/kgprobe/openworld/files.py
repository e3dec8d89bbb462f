"""Worlds as folders: an ordinary graph, the facts that it lacks, and how it was made."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.errors import DataError, naming
from kgprobe.files import replacing
from kgprobe.graph import SPLITS, load_graph, write_graph
from kgprobe.graph.load import places
from kgprobe.graph.readers.columns import id_columns, read_parquet
from kgprobe.graph.readers.detect import find_reader
from kgprobe.openworld.published import is_published, read_published
from kgprobe.openworld.world import OpenWorld

ABOUT = "openworld.json"
MISSING = "missing.parquet"
_SCHEMA = 1
_MAKE = "make a world with: kgprobe openworld split GRAPH -o FOLDER"


def write_world(world: OpenWorld, folder: str | os.PathLike[str]) -> None:
    """Write a world; `load_graph` reads the folder as the graph that an evaluator sees.

    Raises:
        DataError: The folder holds another graph, or cannot be written.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp()) / "tiny"
        >>> world = OpenWorld("tiny", 4, 1, train=[[0, 0, 1]], known=[[0, 0, 2]], missing=[[0, 0, 3]])
        >>> write_world(world, folder)
        >>> load_graph(folder).triples("test").tolist(), read_world(folder).missing.tolist()
        ([[0, 0, 2]], [[0, 0, 3]])
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    target = Path(folder)
    require_free(target)
    about = {
        "schema": _SCHEMA,
        "name": world.name,
        "facts": world.facts,
        "settings": dict(world.settings),
        "queries": None if world.queries is None else world.queries.tolist(),
    }
    # First, so that a folder that was left half written is known for what it is, by the number of its facts.
    with replacing(target / ABOUT) as temporary:
        temporary.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    for split in SPLITS:
        (target / f"{split}.parquet").unlink(missing_ok=True)
    write_graph(world.graph, target)
    with replacing(target / MISSING) as temporary:
        columns = dict(zip(("head", "relation", "tail"), world.missing.T.copy(), strict=True))
        pq.write_table(pa.table(columns), temporary, compression="zstd")


def require_free(folder: Path) -> None:
    """Refuse to write a world over a graph that is none.

    Raises:
        DataError: The folder holds a graph that is no world.

    Example:
        >>> require_free(Path("no such folder"))
    """
    if folder.is_dir() and not (folder / ABOUT).exists() and find_reader(folder) is not None:
        raise DataError(
            f"{folder}: cannot hold a world",
            ["a graph is there that would be overwritten"],
            "choose an empty folder",
        )


def read_world(source: str | os.PathLike[str], correlated: bool = False) -> OpenWorld:
    """Read a world that was written, or a density of the published family tree.

    Args:
        source: A folder; or its name, looked up as `load_graph` looks up graphs.
        correlated: Of a published world, the variant whose missing answers are those that a model ranked lowest.

    Raises:
        DataError: There is no world, or something is wrong with it; all of it is listed.
    """
    try:
        return _find(source, correlated)
    except OSError as error:  # a folder on the way that may not be entered, or a name that no folder can have
        raise DataError(f"{source}: cannot be read", [str(error)], "name a folder that you may read") from None


def _find(source: str | os.PathLike[str], correlated: bool) -> OpenWorld:
    tried = places(source)
    folder = next((place for place in tried if place.is_dir()), None)
    if folder is None:
        raise DataError(f"{source}: no such world", [f"no directory {place}" for place in tried], _MAKE)
    if is_published(folder):
        return read_published(folder, correlated)
    if correlated:
        raise DataError(f"{source}: only published worlds have a correlated variant", remedy=_MAKE)
    return _read(folder)


def _read(folder: Path) -> OpenWorld:
    problems: list[str] = []
    about = _read_about(folder / ABOUT, problems)
    missing = _read_missing(folder / MISSING, problems)
    if about is None or missing is None:
        raise DataError(f"{folder}: not a world", problems, _MAKE)
    graph = load_graph(folder)
    parts = {"train": graph.triples("train"), "valid": graph.triples("valid"), "known": graph.triples("test")}
    parts["missing"] = missing
    problems = [
        f"{part}: {len(facts):,} facts, and {ABOUT} says {about['facts'].get(part, 0):,}"
        for part, facts in parts.items()
        if len(facts) != about["facts"].get(part, 0)
    ]
    if problems:
        raise DataError(f"{folder}: the files of this world do not go together", problems, "write it again")
    with naming(folder):
        return OpenWorld(
            about["name"],
            graph.num_entities,
            graph.num_relations,
            **parts,
            queries=about["queries"],
            entity_labels=graph.entity_labels,
            relation_labels=graph.relation_labels,
            settings=about["settings"],
        )


def _read_about(path: Path, problems: list[str]) -> dict[str, Any] | None:
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        problems.append(f"{path.name} is not there")
        return None
    except (OSError, ValueError) as error:
        problems.append(f"{path.name} cannot be read ({str(error)[:150]})")
        return None
    wanted: dict[str, tuple[type, ...]] = {
        "schema": (int,),
        "name": (str,),
        "facts": (dict,),
        "settings": (dict,),
        "queries": (list, type(None)),
    }
    strange = [
        key
        for key, kind in wanted.items()
        if not (isinstance(about, dict) and key in about and isinstance(about[key], kind))
    ]
    problems += [f"{path.name} does not tell its {key}" for key in strange]
    if not strange and about["schema"] > _SCHEMA:
        problems.append(f"{path.name} was written by a newer kgprobe (schema {about['schema']})")
    return about if not problems else None


def _read_missing(path: Path, problems: list[str]) -> NDArray[np.int64] | None:
    if not path.exists():
        problems.append(f"{path.name} is not there")
        return None
    table = read_parquet(path, problems)
    columns = None if table is None else id_columns(path, table, ("head", "relation", "tail"), problems)
    return None if columns is None else np.column_stack(columns).astype(np.int64)
