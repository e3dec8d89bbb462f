"""Text files in bulk: the fast way first, line by line only where something is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kgprobe.graph.readers.lines import UNREADABLE, disguise, open_bytes, read_lines, whole_number

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

Columns = Mapping[str, "pa.Array"]
"""Columns of one file: int64 for ids, dictionary-encoded strings for labels."""


@dataclass(frozen=True)
class Layout:
    r"""How the lines of a text file are made.

    Attributes:
        columns: For each field of a line, whether it is an id (a whole number) or else a label.
        described: How a line should look, for a person.
        delimiters: Characters that may stand between fields, each tried in turn on the whole file.
        split: Takes one line apart, also where the delimiters of a file are mixed.
        counted: Whether the first line holds the number of the lines that follow.

    Example:
        >>> layout = Layout({"id": True, "label": False}, "id<TAB>label", "\t", lambda line: line.split("\t"))
        >>> layout.judge(["x", "Ada"])
        "'x' is not an id"
        >>> layout.judge(["1"])
        '1 field, expected id<TAB>label'
    """

    columns: Mapping[str, bool]
    described: str
    delimiters: str
    split: Callable[[str], list[str]]
    counted: bool = False

    def judge(self, fields: list[str]) -> str | None:
        """What is wrong with the fields of a line, or None."""
        if len(fields) != len(self.columns):
            found = "1 field" if len(fields) == 1 else f"{len(fields)} fields"
            return f"{found}, expected {self.described}"
        for text, (name, is_id) in zip(fields, self.columns.items(), strict=True):
            if not text:
                return f"empty {name}, expected {self.described}"
            if is_id and whole_number(text) is None:
                return f"{text[:20]!r} is not an id"
        return None


class Rule(Protocol):
    """What must hold beyond the layout, once for whole columns and once for the fields of a line."""

    def holds(self, columns: Columns) -> bool:
        """Whether all lines are good."""

    def judge(self, number: int, fields: list[str]) -> str | None:
        """What is wrong with one line, or None."""


def read_text(path: Path, layout: Layout, rule: Rule, problems: list[str]) -> Columns | None:
    """The columns of a file; or None, with everything that is wrong added to ``problems``."""
    columns = _read_fast(path, layout)
    if columns is not None and rule.holds(columns):
        return columns
    try:
        kind = disguise(path)
    except OSError as error:
        problems.append(f"{path.name}: cannot be read ({error})")
        return None
    if kind and not (kind == "a gzip file" and path.suffix == ".gz"):
        problems.append(f"{path.name}: is {kind}, expected lines of {layout.described}")
        return None
    rows, found = read_lines(
        path,
        layout.split,
        lambda number, fields: layout.judge(fields) or rule.judge(number, fields),
        header=layout.counted,
    )
    problems += found
    return None if found else _columns(rows, layout)


def _read_fast(path: Path, layout: Layout) -> Columns | None:
    import pyarrow as pa
    from pyarrow import csv

    types = {name: pa.int64() if is_id else _coded() for name, is_id in layout.columns.items()}
    read = csv.ReadOptions(column_names=list(types), skip_rows=int(layout.counted), block_size=1 << 24)
    # Nothing in these files means null or quotes: an entity may well be called "NA", and '"' is a character.
    convert = csv.ConvertOptions(column_types=types, null_values=[], strings_can_be_null=False)
    for delimiter in layout.delimiters:
        parse = csv.ParseOptions(delimiter=delimiter, quote_char=False, escape_char=False)
        try:
            with open_bytes(path) as file:
                table = csv.read_csv(file, read, parse, convert)
            promised = _first_number(path) if layout.counted else table.num_rows
        except (pa.ArrowException, *UNREADABLE):
            continue  # the close look that follows says what it was
        columns = {name: table.column(name).combine_chunks() for name in types}
        if promised == table.num_rows > 0 and all(map(_filled, columns.values())):
            return columns
    return None


def _first_number(path: Path) -> int | None:
    with open_bytes(path) as file:
        return whole_number(file.readline().decode("utf-8-sig", "replace").strip())


def _coded() -> pa.DataType:
    import pyarrow as pa

    return pa.dictionary(pa.int32(), pa.string())


def _filled(column: pa.Array) -> bool:
    """Whether every id is non-negative and no label is empty."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wrong = pc.equal(column.dictionary, "") if pa.types.is_dictionary(column.type) else pc.less(column, 0)
    return not pc.any(wrong).as_py()


def _columns(rows: list[list[str]], layout: Layout) -> Columns:
    import pyarrow as pa

    fields = list(zip(*rows, strict=True)) or [()] * len(layout.columns)
    return {
        name: pa.array(map(int, values), pa.int64()) if is_id else pa.array(values).dictionary_encode()
        for (name, is_id), values in zip(layout.columns.items(), fields, strict=True)
    }
