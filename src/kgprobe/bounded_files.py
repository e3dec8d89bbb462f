"""Files of any size and content read in bounded memory: compressed bytes, lines, JSON."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from kgprobe.resources import TooLarge, require_unpackable, shown_memory

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

UNREADABLE = (OSError, EOFError, zlib.error)
"""Exceptions that reading a file can raise, compressed or not."""

LONGEST_LINE = 1 << 24
"""Bytes of the longest line that is read. A longer one is no record, and would be held in memory as a whole."""

BLOCK = 1 << 20
"""Bytes that are read at once."""

_MAGIC = {b"\x1f\x8b": "a gzip file", b"PAR1": "a Parquet file", b"PK\x03\x04": "a zip file"}


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file, decompressing it if its name ends in .gz; reading raises TooLarge beyond `unpacking_limit`."""
    _require_file(path)
    if path.suffix != ".gz":
        return path.open("rb")
    file = cast("IO[bytes]", gzip.open(path, "rb"))  # noqa: SIM115
    return io.BufferedReader(Blocks(file, _unpacked(file)), BLOCK)


def _require_file(path: Path) -> None:
    """Refuse a pipe, whose opening would wait, and what else is no file."""
    if path.exists() and not path.is_file():
        raise OSError("it is a folder, a pipe or a device, expected a file")


class Blocks(io.RawIOBase):
    """A file whose bytes come in blocks of any size."""

    def __init__(self, file: IO[bytes], blocks: Iterator[bytes]) -> None:
        self._file, self._blocks, self._rest = file, blocks, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer)
        block = self._rest or next(self._blocks, b"")
        size = min(len(block), len(view))
        view[:size], self._rest = block[:size], block[size:]
        return size

    def close(self) -> None:
        self._file.close()
        super().close()


def _unpacked(file: IO[bytes]) -> Iterator[bytes]:
    """The blocks of a file that is decompressed; their sizes are added up."""
    size = 0
    while block := file.read(BLOCK):
        size += len(block)
        require_unpackable(size, "the compressed file")
        yield block


def read_bounded(path: Path, most: int | None = None) -> bytes:
    """The content of a file, decompressed if its name ends in .gz.

    Raises:
        TooLarge: It has more than ``most`` bytes, by default more than `unpacking_limit`.
    """
    if most is None:
        require_unpackable(path.stat().st_size)
    blocks, size = [], 0
    with open_bytes(path) as file:
        while block := file.read(BLOCK):
            blocks.append(block)
            size += len(block)
            if most is not None and size > most:
                raise TooLarge(f"it is longer than {shown_memory(most)}")
    return b"".join(blocks)


def parse_json(content: bytes | str) -> Any:
    r"""The value of a JSON text.

    Raises:
        ValueError: It is not JSON, is nested too deeply, or holds what is no text or no number that can be kept.

    Example:
        >>> parse_json('{"a": [1]}')
        {'a': [1]}
        >>> parse_json("[" * 100_000)
        Traceback (most recent call last):
        ...
        ValueError: it is nested too deeply
    """
    try:
        text = content if isinstance(content, str) else content.decode("utf-8-sig")
        value = json.loads(text)
        if "\\u" in text:  # half of a surrogate pair can be written as an escape, but never be shown or written again
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def bounded_lines(file: IO[bytes], most: int = LONGEST_LINE) -> Iterator[bytes]:
    r"""The lines of a file without their ends, which may be \n, \r\n or \r.

    Raises:
        TooLarge: A line is longer than ``most`` bytes. No more than this and a block of the file is held in memory.

    Example:
        >>> list(bounded_lines(io.BytesIO(b"a\n\nb\r\nc")))
        [b'a', b'', b'b', b'c']
    """
    number, rest = 1, b""
    while block := file.read(BLOCK):
        text = rest + block
        whole = text.removesuffix(b"\r")  # it may be the first half of \r\n
        *lines, last = (whole + b"|").splitlines()
        rest = last[:-1] + text[len(whole) :]
        if len(text) > most:
            for i, line in enumerate((*lines, last[:-1]), number):
                if len(line) > most:
                    raise TooLarge(f"line {i} is longer than {shown_memory(most)}, the longest line that is read")
        number += len(lines)
        yield from lines
    if rest:
        yield rest.removesuffix(b"\r")


def disguise(path: Path) -> str | None:
    """The kind of a file that is not text, by its first bytes; None for text and for a gzip file named .gz.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "train.txt"
        >>> _ = path.write_bytes(b"PAR1...")
        >>> disguise(path)
        'a Parquet file'
    """
    _require_file(path)
    with path.open("rb") as file:
        start = file.read(4)
    kind = next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), None)
    return None if kind == "a gzip file" and path.suffix == ".gz" else kind
