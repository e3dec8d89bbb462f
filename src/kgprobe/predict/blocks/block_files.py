"""The counts of a block in a file of its own, written once; signs of life of the processes that count blocks."""

from __future__ import annotations

import json
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from numpy.typing import NDArray

from kgprobe.bounded_files import parse_json
from kgprobe.errors import DataError, shown
from kgprobe.files import TEMPORARY
from kgprobe.parquet_files import open_parquet, write_parquet
from kgprobe.predict.blocks.block_plan import Block
from kgprobe.predict.tasks import Counts

_KEY = b"kgprobe block"
_COLUMNS = ("greater", "equal", "others")
_ENDING = ".parquet"
_NAME = re.compile(r"[0-9a-f]{32}")

_BEAT = 5.0
"""Seconds between two signs of life."""

_SILENT = 60.0
"""Seconds without a sign of life after which a process is taken for dead."""


@dataclass(frozen=True)
class BlockRecord:
    """How a block was counted.

    Attributes:
        block: The name of the block.
        ranking: The hash of the ranking.
        seconds: How long it took.
        part: The share of the blocks that was ranked, such as "2/8"; empty for all.
        place: Machine and process.
    """

    block: str
    ranking: str
    seconds: float
    part: str = ""
    place: str = ""


def here() -> str:
    """This machine and this process."""
    return f"{socket.gethostname()} {os.getpid()}"


@dataclass(frozen=True)
class Running:
    """A block that a process is counting.

    Attributes:
        block: The name of the block.
        place: Machine and process.
        silent: Seconds since its last sign of life.
    """

    block: str
    place: str
    silent: float

    @property
    def is_alive(self) -> bool:
        return self.silent < _SILENT


@dataclass(frozen=True)
class BlockFiles:
    """The files of finished blocks, and the signs of life for blocks that are being counted.

    Attributes:
        finished: The folder of finished blocks.
        running: The folder of signs of life.
        ranking: The hash of the ranking.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> files = BlockFiles(Path(tempfile.mkdtemp()), Path(tempfile.mkdtemp()), "hash of the ranking")
        >>> block = Block("tail", range(0, 1), range(0, 9))
        >>> files.write(block, Counts(np.array([3]), np.array([0]), np.array([8])), seconds=0.5)
        >>> files.names() == {block.id(files.ranking)}, files.read(block, targets=1).rank.tolist()
        (True, [4.0])
    """

    finished: Path
    running: Path
    ranking: str

    def names(self) -> set[str]:
        """The names of the blocks that are finished.

        Raises:
            DataError: There are other files.
        """
        entries = [entry.name for entry in _entries(self.finished) if not TEMPORARY.fullmatch(entry.name)]
        foreign = [name for name in entries if not (name.endswith(_ENDING) and _NAME.fullmatch(Path(name).stem))]
        if foreign:
            problems = [f"{name}: not a file of a block" for name in sorted(foreign)]
            raise DataError(f"{self.finished}: invalid files", problems, "move them away; nothing else is lost")
        return {Path(name).stem for name in entries}

    def path(self, block: Block) -> Path:
        return self.finished / f"{block.id(self.ranking)}{_ENDING}"

    def is_finished(self, block: Block) -> bool:
        return self.path(block).exists()

    def write(self, block: Block, counts: Counts, seconds: float, part: str = "", place: str = "") -> None:
        """Write the counts of a block."""
        record = BlockRecord(block.id(self.ranking), self.ranking, seconds, part, place or here())
        columns = {name: getattr(counts, name) for name in _COLUMNS}
        table = pa.table(columns).replace_schema_metadata({_KEY: json.dumps(asdict(record)).encode()})
        write_parquet(table, self.path(block))

    def read(self, block: Block, targets: int) -> Counts:
        """The counts of a finished block with so many targets.

        Raises:
            DataError: The file is missing or damaged, or does not hold the counts of this block.
        """
        file = open_parquet(self.path(block), ours=True)
        self._record(file.schema.metadata, block)
        if file.schema.names != list(_COLUMNS) or any(kind != pa.int64() for kind in file.schema.types):
            raise self._foreign(block, f"its columns are {', '.join(map(str, file.schema))[:100]}")
        table = file.read()
        if any(column.null_count for column in table.columns):
            raise self._foreign(block, "counts are null")
        counts = Counts(*(column.to_numpy() for column in table.columns))
        if len(counts.greater) != targets:
            raise self._foreign(block, f"it has {len(counts.greater):,} rows for {targets:,} targets")
        if _impossible(counts, len(block.entities)):
            raise self._foreign(block, f"counts that {len(block.entities):,} entities cannot give")
        return counts

    def record(self, block: Block) -> BlockRecord:
        """How a finished block was counted."""
        return self._record(open_parquet(self.path(block), ours=True).schema.metadata, block)

    def _record(self, metadata: dict[bytes, bytes] | None, block: Block) -> BlockRecord:
        try:
            record = BlockRecord(**parse_json((metadata or {}).get(_KEY, b"null")))
        except (TypeError, ValueError):
            raise self._foreign(block, "it has no record of a block") from None
        expected = block.id(self.ranking)
        if (record.block, record.ranking) != (expected, self.ranking) or type(record.seconds) not in (int, float):
            raise self._foreign(
                block, f"it holds the block {shown(record.block)} of the ranking {shown(record.ranking)}"
            )
        return record

    def _foreign(self, block: Block, problem: str) -> DataError:
        return DataError(f"{self.path(block)}: not the counts of {block}", [problem])

    def problems(self, blocks: dict[Block, int]) -> list[str]:
        """What is wrong with the files of finished blocks, given with the number of their targets; one line each."""
        problems = []
        for block, targets in blocks.items():
            try:
                self.read(block, targets)
            except DataError as error:
                problems.append(": ".join([error.title, *error.problems]))
        return problems

    def refuse(self, problems: list[str]) -> None:
        """Raise a DataError if there are problems."""
        if problems:
            remedy = "remove these files, and rank again: only their blocks are counted again"
            raise DataError(f"{self.finished}: {len(problems):,} blocks cannot be used", problems, remedy)

    @contextmanager
    def beating(self, block: Block, place: str = "") -> Iterator[None]:
        """Give signs of life for a block, until the end of the context."""
        place = place or here()
        path = self.running / f"{block.id(self.ranking)}.{re.sub('[^A-Za-z0-9-]', '-', place)}"
        ended = threading.Event()

        def beat() -> None:
            while not ended.wait(_BEAT):
                with suppress(OSError):  # it has ended, or cannot be written: the counts are what matters
                    os.utime(path)

        try:
            with suppress(OSError):
                path.write_text(place, encoding="utf-8")
            threading.Thread(target=beat, daemon=True).start()
            yield
        finally:
            with suppress(OSError):
                path.unlink()
            ended.set()

    def beats(self) -> list[Running]:
        """The blocks that processes are counting, or were counting when they were killed."""
        found = []
        for entry in _entries(self.running):
            with suppress(OSError):  # it has ended
                silent = max(0.0, time.time() - entry.stat().st_mtime)
                place = Path(entry.path).read_text("utf-8", "replace")
                found.append(Running(entry.name.partition(".")[0], place, silent))
        return found


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    return list(os.scandir(folder)) if folder.is_dir() else []


def _impossible(counts: Counts, entities: int) -> bool:
    """Whether no block of so many entities has these counts."""
    columns: list[NDArray[Any]] = [counts.greater, counts.equal, counts.others]
    least = min((int(column.min(initial=0)) for column in columns), default=0)
    compared = counts.greater + counts.equal > counts.others
    return bool(least < 0 or compared.any() or counts.others.max(initial=0) > entities)
