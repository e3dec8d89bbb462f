"""Results as tables: pandas, polars and Arrow, and how a notebook shows them.

`Table` is what every tabular result has in common. Formats and figures are made by `kgprobe.report`, which stands above
the results in the layers; it is imported by name when a result is shown or drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kgprobe.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

Row = Mapping[str, Any]

SHOWN_ROWS = 20
"""A notebook shows at most this many rows of a table."""


class Table:
    """A result with rows and columns; a class that has `to_rows` or `to_arrow` gets the other formats.

    Example:
        >>> class Squares(Table):
        ...     def to_rows(self):
        ...         return [{"x": x, "square": x * x} for x in (1, 2)]
        >>> Squares().to_arrow().to_pydict()
        {'x': [1, 2], 'square': [1, 4]}
        >>> print(Squares().to_pandas().sum().to_dict())
        {'x': 3, 'square': 5}
    """

    def to_rows(self) -> list[dict[str, Any]]:
        """A dictionary for every row."""
        rows: list[dict[str, Any]] = self.to_arrow().to_pylist()
        return rows

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return arrow_table(self.to_rows())

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas data frame."""
        _require("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """The rows as a polars data frame."""
        frame: pl.DataFrame = _require("polars").DataFrame(self.to_arrow())
        return frame

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The Arrow PyCapsule interface: what pyarrow, polars, DuckDB and others read without kgprobe."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def _shown_rows(self) -> Sequence[Row]:
        """The rows that a notebook shows: shorter than those of `to_rows` where that is easier to read."""
        return self.to_rows()

    def _notes(self) -> Sequence[str]:
        """Sentences below the table."""
        return ()

    def _repr_html_(self) -> str:
        made: str = in_report("markup_tables").notebook_table(repr(self), *self._preview())
        return made

    def _text(self) -> str:
        """The table as text, for ``__str__`` of results that have no text of their own."""
        made: str = in_report("grid").text_table(*self._preview())
        return made

    def _preview(self) -> tuple[Sequence[Row], list[str]]:
        rows, notes = self._shown_rows(), list(self._notes())
        if len(rows) > SHOWN_ROWS:
            notes.insert(0, f"The first {SHOWN_ROWS} of {len(rows):,} rows; to_pandas() has all.")
        return rows[:SHOWN_ROWS], notes


def arrow_table(rows: Sequence[Row], schema: pa.Schema | None = None) -> pa.Table:
    """Rows as an Arrow table: one column for each key of any row, null where a row does not have it.

    Args:
        rows: The rows. A column whose values have no common type becomes text.
        schema: Names and types of the columns, where they must not depend on the rows.

    Example:
        >>> arrow_table([{"kind": "estimate", "p": None}, {"kind": "difference", "p": 0.5, "by": 3}]).to_pydict()
        {'kind': ['estimate', 'difference'], 'p': [None, 0.5], 'by': [None, 3]}
    """
    if schema is not None:
        return pa.table({field.name: [row.get(field.name) for row in rows] for field in schema}, schema=schema)
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: _column([row.get(name) for row in rows]) for name in names})


def _column(values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([None if value is None else str(value) for value in values], pa.string())


def in_report(module: str) -> ModuleType:
    """A module of `kgprobe.report`, imported by name, since results stand below it in the layers."""
    return import_module(f"kgprobe.report.{module}")


def _require(package: str) -> ModuleType:
    try:
        return import_module(package)
    except ImportError:
        raise UsageError(f"to_{package}() needs {package}", remedy=f"pip install {package}") from None
