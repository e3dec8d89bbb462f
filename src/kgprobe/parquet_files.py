"""Parquet files: written with a checksum of the whole file, and verified before anything that they hold is believed."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa

from kgprobe.errors import DataError
from kgprobe.files import replacing
from kgprobe.resources import TooLarge, require_unpackable

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_MAGIC = b"PAR1"
_TAIL = 8
"""Bytes at the end of a Parquet file: the length of the footer, and the magic bytes."""

_MARK = b"\nkgprobe crc32 of this file: "
_DIGITS = 8
_SEARCHED = (1 << 20, 1 << 28)
"""Bytes at the end that are searched for the checksum, at least and at most: a damaged footer may claim any length."""
_BLOCK = 1 << 22
_BUFFER = 1 << 20
_COPY_AGAIN = "write or copy it again"

# What pyarrow raises for a damaged file. Names that are not UTF-8 are decoded by Python.
_DAMAGE = (OSError, pa.ArrowException, UnicodeDecodeError, OverflowError)


def write_parquet(table: pa.Table, path: str | os.PathLike[str], *, row_group_size: int | None = None) -> None:
    r"""Write a table atomically, with checksums of its pages and of the whole file.

    The checksums of pages, which other programs verify too, cover neither the headers of the pages nor the footer. So
    the CRC-32 of all bytes stands between the pages and the footer, where no reader of Parquet looks. It is not in the
    metadata, because a program that copies a table into a new file copies these too.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "ids.parquet"
        >>> write_parquet(pa.table({"id": [0, 1]}), path)
        >>> open_parquet(path).read().column("id").to_pylist()
        [0, 1]
        >>> _ = path.write_bytes(path.read_bytes().replace(b"id", b"ie"))
        >>> open_parquet(path)
        Traceback (most recent call last):
        ...
        kgprobe.errors.DataError: ...ids.parquet: the Parquet file is damaged
          - its checksum is ..., but its content gives ...: it was changed after it was written
        Remedy: write or copy it again
    """
    import pyarrow.parquet as pq

    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", row_group_size=row_group_size, write_page_checksum=True)
        with temporary.open("r+b") as file:
            _add_checksum(file)


def _add_checksum(file: IO[bytes]) -> None:
    file.seek(-_TAIL, os.SEEK_END)
    at = file.seek(-_TAIL - int.from_bytes(file.read(4), "little"), os.SEEK_END)
    footer = file.read()
    file.seek(at)
    file.write(_MARK + b"0" * _DIGITS + footer)
    at += len(_MARK)
    checksum = _checksum(file, at)
    file.seek(at)
    file.write(checksum)


def _checksum(file: IO[bytes], at: int) -> bytes:
    """The CRC-32, in hexadecimal digits, of all bytes of a file but the digits at ``at``, which hold it."""
    size = file.seek(0, os.SEEK_END)
    crc = 0
    for start, stop in ((0, at), (at + _DIGITS, size)):
        file.seek(start)
        for position in range(start, stop, _BLOCK):
            crc = zlib.crc32(file.read(min(_BLOCK, stop - position)), crc)
    return f"{crc:0{_DIGITS}x}".encode()


def _checksum_problem(path: Path, *, ours: bool) -> str | None:
    """The difference between the checksum that a file records and that of its bytes; None if it need not have one."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL))
        footer = int.from_bytes(file.read(4), "little") + _TAIL + len(_MARK) + _DIGITS
        least, most = _SEARCHED
        start = file.seek(max(0, size - min(max(footer, least), most)))
        tail = file.read()
        found = tail.rfind(_MARK) + len(_MARK)
        if found < len(_MARK):
            return "it has no checksum: it was changed after it was written" if ours else None
        recorded, actual = tail[found : found + _DIGITS], _checksum(file, start + found)
    if recorded == actual:
        return None
    shown = recorded.decode("ascii", "backslashreplace")
    return f"its checksum is {shown}, but its content gives {actual.decode()}: it was changed after it was written"


def open_parquet(path: str | os.PathLike[str], *, ours: bool = False) -> ParquetTable:
    """Open a Parquet file, and verify its checksum if kgprobe wrote it.

    Args:
        path: The file.
        ours: Whether kgprobe wrote it, so that a file without a checksum is damaged.

    Raises:
        DataError: It is not a Parquet file, or it is damaged.
    """
    import pyarrow.parquet as pq

    file = Path(path)
    try:
        _refuse_other_kinds(file)
        if problem := _checksum_problem(file, ours=ours):
            raise _damaged(file, problem)
    except OSError as error:  # no permission, or not a valid name
        raise DataError(f"{file}: cannot be read", [str(error)], "check the name and the permissions") from None
    # By default the reader keeps every byte that it has read in memory.
    options: dict[str, Any] = {"pre_buffer": False, "buffer_size": _BUFFER, "page_checksum_verification": True}
    try:
        opened = pq.ParquetFile(file, **options)
        schema = opened.schema_arrow
        str(schema), str(opened.schema)  # decode all names, which may differ between the two
        groups = sum(opened.metadata.row_group(i).num_rows for i in range(opened.num_row_groups))
        if texts := [field.name for field in schema if _is_text(field.type)]:
            opened = pq.ParquetFile(file, metadata=opened.metadata, read_dictionary=texts, **options)
    except _DAMAGE as error:
        raise _damaged(file, _reason(error)) from None
    rows = opened.metadata.num_rows
    if groups != rows or rows < 0:
        raise _damaged(file, f"its row groups have {groups:,} rows, its footer says {rows:,}")
    return ParquetTable(file, opened, schema)


def _refuse_other_kinds(path: Path) -> None:
    if not path.exists():
        raise DataError(f"{path}: no such file", remedy="check the name and the folder")
    if path.is_dir():
        raise DataError(f"{path}: this is a folder, not a Parquet file", remedy="give the Parquet files in it")
    if not path.is_file():
        raise DataError(f"{path}: this is a pipe or a device", remedy="write it to a file first")
    with path.open("rb") as file:
        start = file.read(len(_MAGIC))
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - len(_MAGIC)))
        end = file.read()
    if not start:
        raise DataError(f"{path}: the file is empty", remedy=_COPY_AGAIN)
    if start != _MAGIC:
        raise DataError(
            f"{path}: this is not a Parquet file",
            [f"it begins with {start!r}"],
            "convert rank files of other formats with import_ranks ('kgprobe import')",
        )
    if end != _MAGIC:
        raise _damaged(path, "its end is missing: it was truncated")


def _damaged(path: Path, problem: str) -> DataError:
    return DataError(f"{path}: the Parquet file is damaged", [problem], _COPY_AGAIN)


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "the name of a column is not UTF-8"
    return (str(error).splitlines() or [type(error).__name__])[0][:150]


class ParquetTable:
    """An open Parquet file, read as a whole or in batches. Both refuse a file that has not the rows of its footer.

    Args:
        path: The file.
        file: The same file, opened. Texts are read as dictionaries, since a text that is stored once may be repeated in
            every row.
        schema: Names, types and metadata of the columns.
    """

    def __init__(self, path: Path, file: pq.ParquetFile, schema: pa.Schema) -> None:
        self.path, self._file, self.schema = path, file, schema

    def __len__(self) -> int:
        return int(self._file.metadata.num_rows)

    def read(self) -> pa.Table:
        """The whole table; refused if it unpacks beyond `unpacking_limit`."""
        self.require_room()
        try:
            table = self._plain(self._file.read(use_threads=False))
        except _DAMAGE as error:
            raise _damaged(self.path, _reason(error)) from None
        self._require_rows(table.num_rows)
        return table

    def batches(self, rows: int) -> Iterator[pa.Table]:
        """The rows in tables of at most this many."""
        count = 0
        try:
            for batch in self._file.iter_batches(batch_size=rows):
                table = self._plain(pa.Table.from_batches([batch]))
                count += table.num_rows
                yield table
        except _DAMAGE as error:
            raise _damaged(self.path, _reason(error)) from None
        self._require_rows(count)

    def _plain(self, table: pa.Table) -> pa.Table:
        """The table with its texts as such, not as dictionaries."""
        import pyarrow.compute as pc

        table.validate(full=True)  # texts are UTF-8
        encoded = [table.column(i) for i, field in enumerate(self.schema) if table.schema.field(i).type != field.type]
        chunks = [chunk for column in encoded for chunk in column.iterchunks()]
        sizes = [pc.sum(pc.binary_length(chunk.dictionary).take(chunk.indices)).as_py() or 0 for chunk in chunks]
        require_room(self.path, sum(sizes))
        return table.cast(self.schema) if encoded else table

    def _require_rows(self, count: int) -> None:
        if count != len(self):
            raise _damaged(self.path, f"it has {count:,} rows, its footer says {len(self):,}")

    def require_room(self, bytes_per_row: int = 0) -> None:
        """Refuse a table that, with further bytes for each row, takes more memory than `unpacking_limit`.

        The footer tells: a file of a kilobyte can hold a thousand million rows, if they are all the same.
        """
        # One more bit tells whether a value is null. Values of any length have an offset of 4 bytes; if they are not
        # repeated, the pages are as long. What the pages of a single column unpack to is not asked: if the footer is
        # damaged, pyarrow ends the process instead of raising.
        widths = [(field.type.bit_width + 1) / 8 if _is_fixed(field.type) else 4 for field in self.schema]
        groups = range(self._file.num_row_groups)
        pages = sum(max(0, self._file.metadata.row_group(i).total_byte_size) for i in groups)
        texts = 0 if all(_is_fixed(field.type) for field in self.schema) else pages
        require_room(self.path, int(len(self) * (sum(widths) + bytes_per_row)) + texts)


def require_room(path: Path, size: int) -> None:
    """Refuse a file of which ``size`` bytes are held in memory at once, if that is beyond `unpacking_limit`."""
    try:
        require_unpackable(size)
    except TooLarge as error:
        raise DataError(f"{path}: too large to be read", [str(error)]) from None


def _is_text(kind: pa.DataType) -> bool:
    return any(check(kind) for check in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary))


def _is_fixed(kind: pa.DataType) -> bool:
    """Whether all values of a type have the same size."""
    try:
        return bool(kind.bit_width >= 0)
    except ValueError:
        return False
