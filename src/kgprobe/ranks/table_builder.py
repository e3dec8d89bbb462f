"""Batches of rank tables joined in few bytes: narrow integers, exact single precision, codes of popularities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgprobe.ranks.schema import COLUMNS, POPULARITY


class TableBuilder:
    """Joins valid batches of canonical types in few bytes.

    Integers are narrow, ranks have single precision where it is exact, and popularities that repeat are codes. Every
    column is one array that is allocated at the start, so that memory is not fragmented.

    Args:
        rows: The number of rows of all batches.

    Example:
        >>> builder = TableBuilder(rows=3)
        >>> builder.add(pa.table({"rank": [1.0, 2.5], "candidates": [9, 300], "entity_popularity": [0.1, 0.1]}))
        >>> builder.add(pa.table({"rank": [4.0], "candidates": [70_000], "entity_popularity": [0.1]}))
        >>> [str(column.type) for column in builder.table().columns]
        ['float', 'int32', 'dictionary<values=double, indices=int32, ordered=0>']
    """

    def __init__(self, rows: int) -> None:
        self._rows, self._seen = rows, 0
        self._columns: dict[str, _Numbers | _Codes | _Chunks] = {}

    def add(self, batch: pa.Table) -> None:
        for name, column in zip(batch.column_names, batch.columns, strict=True):
            if name not in self._columns:
                kind = _Codes if name in POPULARITY else _Numbers if pa.types.is_primitive(column.type) else _Chunks
                self._columns[name] = kind(self._rows) if name in COLUMNS else _Chunks(self._rows)
            self._columns[name].add(column, self._seen)
        self._seen += batch.num_rows

    def table(self) -> pa.Table:
        pa.default_memory_pool().release_unused()  # what the batches left behind
        return pa.table({name: column.joined() for name, column in self._columns.items()}).slice(0, self._seen)


class _Chunks:
    """A column whose batches are kept as they are."""

    def __init__(self, rows: int) -> None:
        self._parts: list[pa.ChunkedArray] = []

    def add(self, column: pa.ChunkedArray, start: int) -> None:
        self._parts.append(column)

    def joined(self) -> pa.ChunkedArray:
        chunks = [chunk for part in self._parts for chunk in part.chunks]
        return pa.chunked_array(chunks, type=self._parts[0].type).unify_dictionaries()


class _Numbers:
    """A column of numbers in the narrowest type that holds them exactly."""

    def __init__(self, rows: int) -> None:
        self._values: NDArray[Any] = np.zeros(rows, dtype=np.int8)
        self._null: NDArray[np.bool_] | None = None

    def add(self, column: pa.ChunkedArray, start: int) -> None:
        rows = slice(start, start + len(column))
        if column.null_count:
            self._null = np.zeros(len(self._values), dtype=bool) if self._null is None else self._null
            self._null[rows] = column.is_null().to_numpy()
            column = column.fill_null(0)
        given = column.to_numpy()
        kind = _narrowest(given)
        if kind.itemsize > self._values.itemsize or kind.kind != self._values.dtype.kind:
            self._values = self._values.astype(kind)
        self._values[rows] = given

    def joined(self) -> pa.Array:
        return pa.array(self._values, mask=self._null)


def _narrowest(values: NDArray[Any]) -> np.dtype[Any]:
    if values.dtype.kind == "f":
        with np.errstate(over="ignore"):
            single = (values.astype(np.float32) == values).all()
        return np.dtype(np.float32 if single else np.float64)
    ends = [int(values.min(initial=0)), int(values.max(initial=0))]
    limits = [np.iinfo(kind) for kind in (np.int8, np.int16, np.int32, np.int64)]
    return next(limit.dtype for limit in limits if limit.min <= ends[0] and ends[1] <= limit.max)


class _Codes:
    """A column of numbers of which many are equal, as codes into their distinct values."""

    _MOST = 1 << 20

    def __init__(self, rows: int) -> None:
        self._codes = np.zeros(rows, dtype=np.int32)
        self._distinct = pa.array([], pa.float64())
        self._plain: NDArray[np.float64] | None = None

    def add(self, column: pa.ChunkedArray, start: int) -> None:
        rows = slice(start, start + len(column))
        if self._plain is None and not self._encoded(column, rows):
            size = len(self._codes)
            self._plain = self._distinct.to_numpy().take(self._codes) if len(self._distinct) else np.empty(size)
        if self._plain is not None:
            self._plain[rows] = column.to_numpy()

    def _encoded(self, column: pa.ChunkedArray, rows: slice) -> bool:
        """Store the codes of a batch; False if it has nulls or there are too many distinct values."""
        import pyarrow.compute as pc

        encoded = column.combine_chunks().dictionary_encode()
        own = encoded.dictionary
        joined = pa.concat_arrays([self._distinct, own.filter(pc.invert(pc.is_in(own, self._distinct)))])
        if column.null_count or 2 * len(joined) > rows.stop or len(joined) > self._MOST:
            return False
        self._distinct = joined
        self._codes[rows] = pc.index_in(own, joined).to_numpy().take(encoded.indices.to_numpy())
        return True

    def joined(self) -> pa.Array:
        if self._plain is not None:
            return pa.array(self._plain, from_pandas=True)
        return pa.DictionaryArray.from_arrays(pa.array(self._codes), self._distinct)
