"""The columns of a rank table and what a file says about itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import pyarrow as pa

from kgprobe.errors import DataError

SIDES = pa.dictionary(pa.int8(), pa.string())

_MOST_SIDES = 127

SIDE_NAMES = {
    **dict.fromkeys(("head", "h", "s", "subject", "lhs", "head-batch", "head_batch"), "head"),
    **dict.fromkeys(("tail", "t", "o", "object", "rhs", "tail-batch", "tail_batch"), "tail"),
}

"""What other programs call the side that is predicted, in small letters."""

REQUIRED: dict[str, pa.DataType] = {
    "head": pa.int64(),
    "relation": pa.int64(),
    "tail": pa.int64(),
    "side": SIDES,
    "rank": pa.float64(),
    "candidates": pa.int64(),
}

OPTIONAL: dict[str, pa.DataType] = {
    "ties": pa.int64(),
    "worst_rank": pa.float64(),
    "entity_popularity": pa.float64(),
    "relation_popularity": pa.float64(),
    "seed": pa.int64(),
}

COLUMNS = REQUIRED | OPTIONAL

POPULARITY = ("entity_popularity", "relation_popularity")

SCHEMA_VERSION = 1

_METADATA_KEY = b"kgprobe"


def package_version() -> str:
    """The version of kgprobe that is running.

    Example:
        >>> package_version().count(".") >= 1
        True
    """
    try:
        return version("kgprobe")
    except PackageNotFoundError:  # run from a source tree without installation
        return "0+source"


@dataclass(frozen=True)
class RanksInfo:
    """Where a rank table comes from; travels in the file's metadata.

    Example:
        >>> RanksInfo.from_metadata(RanksInfo(model="RotatE", graph="umls").to_metadata()).model
        'RotatE'
    """

    model: str | None = None
    graph: str | None = None
    graph_hash: str | None = None
    split: str | None = None
    filtered: tuple[str, ...] | None = None
    """The splits whose facts were removed from the candidates."""
    filter_hash: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    schema: int = SCHEMA_VERSION
    kgprobe: str = field(default_factory=package_version)

    def to_metadata(self) -> dict[bytes, bytes]:
        """The entry that goes into the Parquet metadata."""
        return {_METADATA_KEY: json.dumps(asdict(self), sort_keys=True).encode()}

    @classmethod
    def from_metadata(cls, metadata: dict[bytes, bytes] | None) -> RanksInfo:
        """Read the entry back; a file without one says nothing about itself."""
        if not metadata or _METADATA_KEY not in metadata:
            return cls(kgprobe="")
        try:
            entry = json.loads(metadata[_METADATA_KEY])
            found = int(entry["schema"])
            known = {key: entry[key] for key in cls.__dataclass_fields__ if key in entry}
        except (ValueError, KeyError, TypeError):
            raise DataError(
                "the kgprobe metadata of this file cannot be read", ["it is not the JSON that kgprobe writes"]
            ) from None
        if found > SCHEMA_VERSION:
            raise DataError(
                "this file was written by a newer kgprobe",
                [f"its rank table has schema {found}, this version reads up to {SCHEMA_VERSION}"],
                "upgrade kgprobe",
            )
        if known.get("filtered") is not None:
            known["filtered"] = tuple(known["filtered"])
        return cls(**known)


def table_of(given: Mapping[str, Any], labels: Mapping[str, Any]) -> pa.Table:
    """Arrays and lists as a table, naming every one that is no column; what is None is left out.

    Example:
        >>> table_of({"rank": [1, 2], "ties": [0, float("nan")]}, labels={"kind": None})["ties"].to_pylist()
        [0, None]
    """
    problems = [f"label '{name}' has the name of a column that is not a label" for name in labels if name in COLUMNS]
    columns: dict[str, pa.Array] = {}
    for name, values in (dict(labels) | dict(given)).items():
        if values is None:
            continue
        try:
            # In a column that may be null, NaN is how NumPy says so; elsewhere it is a mistake to be named.
            columns[name] = pa.array(values, from_pandas=name in OPTIONAL)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            problems.append(f"column '{name}' is not a list of values of one kind: {str(error).splitlines()[0]}")
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        problems.append("different lengths: " + ", ".join(f"{name} {n:,}" for name, n in lengths.items()))
    if problems:
        raise DataError("these columns are no rank table", problems)
    return pa.table(columns)


def conform(table: pa.Table) -> pa.Table:
    """Bring a table's columns to their canonical types, naming everything that stands in the way.

    Columns beyond the canonical ones are kept: they are labels to group by.

    Example:
        >>> conform(pa.table({"rank": [1]}))
        Traceback (most recent call last):
        ...
        kgprobe.errors.DataError: this is not a rank table
          - column 'head' is missing
          - column 'relation' is missing
          - column 'tail' is missing
          - column 'side' is missing
          - column 'candidates' is missing
        Remedy: the columns found are: rank; rename them, or use 'kgprobe import' with --map
    """
    problems = [f"column '{name}' is missing" for name in REQUIRED if name not in table.column_names]
    twice = [name for name in dict.fromkeys(table.column_names) if table.column_names.count(name) > 1]
    problems += [f"column '{name}' occurs twice" for name in twice]
    columns: dict[str, pa.ChunkedArray] = {}
    for name in [*COLUMNS, *(n for n in table.column_names if n not in COLUMNS)]:
        if name not in table.column_names or name in twice:
            continue
        column, wanted = table.column(name), COLUMNS.get(name)
        try:
            columns[name] = column if wanted is None else _cast(column, wanted)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            reason = str(error).split("\n")[0]
            problems.append(f"column '{name}' holds {column.type}, which does not read as {_plain(wanted)}: {reason}")
    if problems:
        found = ", ".join(map(str, table.column_names)) or "none"
        raise DataError(
            "this is not a rank table",
            problems,
            f"the columns found are: {found}; rename them, or use 'kgprobe import' with --map",
        )
    return pa.table(columns)


def _cast(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    if wanted != SIDES:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        return column.cast(wanted)
    strings = column.cast(pa.string())
    encoded = strings.dictionary_encode()
    distinct = len(encoded.chunk(0).dictionary) if encoded.num_chunks else 0
    if distinct > _MOST_SIDES:  # more than the index type can tell apart, let alone the two that are known
        raise pa.ArrowInvalid(f"it has {distinct:,} different values")
    return encoded if encoded.type == wanted else encoded.cast(wanted)


def _plain(wanted: pa.DataType | None) -> str:
    return "'head' or 'tail'" if wanted == SIDES else str(wanted)
