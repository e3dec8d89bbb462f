"""The directory of a ranking by blocks: created or joined, the state of its blocks, the rank table that they make."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from kgprobe.errors import DataError, UsageError, spans
from kgprobe.files import TEMPORARY, require_writable
from kgprobe.json_files import read_json, write_json
from kgprobe.predict.adapters.opening import Model
from kgprobe.predict.blocks.block_files import BlockFiles, Running
from kgprobe.predict.blocks.block_plan import Block, Part, Plan
from kgprobe.predict.blocks.ranking_identity import ModelFile, RankingIdentity, model_files, scorer_of, triples_hash
from kgprobe.predict.queries import RankedTriples
from kgprobe.predict.scorers import Side
from kgprobe.predict.setting import Setting
from kgprobe.predict.tasks import Counts
from kgprobe.ranks import RankFile, Ranks, RanksInfo, read_ranks
from kgprobe.resources import Resources

MANIFEST = "ranking.json"
_QUERIES = "queries.parquet"
_BLOCKS, _RUNNING = "blocks", "running"
_OWN = {MANIFEST, _QUERIES, _BLOCKS, _RUNNING}
_FIELDS = {"ranking": str, "identity": dict, "files": list, "plan": {"queries": dict, "entities": list, "batch": int}}
_TIMED = 64
"""Finished blocks whose time is read for the rate."""

_NAMED = 8


@dataclass(frozen=True)
class BlockStatus:
    """How far a ranking by blocks is.

    Attributes:
        model: The name of the model.
        graph: The name of the graph.
        blocks: The number of blocks.
        done: Finished blocks.
        running: Blocks that a process is counting.
        stopped: Blocks that a process was counting when it died.
        missing: Blocks that no process is counting.
        pairs_per_second: Pairs of a distinct query and an entity that are counted in a second, by all processes.
        seconds_left: Estimated time for the remaining blocks; None if no process is running, or no block is done.
        signs: The processes that are running, or were.
    """

    model: str
    graph: str
    blocks: int
    done: int
    running: int
    stopped: int
    missing: int
    pairs_per_second: float | None
    seconds_left: float | None
    signs: tuple[tuple[str, Running], ...]


@dataclass(frozen=True, eq=False)
class RankingDirectory:
    """The directory of a ranking by blocks.

    Attributes:
        path: The directory.
        identity: What is ranked.
        files: The files of the model.
        plan: The blocks.
    """

    path: Path
    identity: RankingIdentity
    files: tuple[ModelFile, ...]
    plan: Plan

    @classmethod
    def join(
        cls, path: Path, setting: Setting, model: Model, info: RanksInfo, resources: Resources, least: int = 1
    ) -> RankingDirectory:
        """The directory of this ranking: created, or joined if it is there, with the plan that it has.

        Args:
            path: The directory.
            setting: The evaluation setting.
            model: The model.
            info: The metadata of the rank file.
            resources: The resources, on which the size of a new plan's blocks depends.
            least: The number of blocks of a new plan, at least, if there is work for them.

        Raises:
            UsageError: It holds another ranking, or other files.
        """
        with _accessing(path):
            _require_room(path)
            known = cls.open(path) if (path / MANIFEST).exists() else None
        files = model_files(model.files, known.files if known else ())
        identity = RankingIdentity.of(setting, model, info, files)
        if known is None:
            plan = Plan.build(setting, scorer_of(model), resources, least)
            known = cls(path, identity, files, plan)
            known._create(setting.table.with_info(**vars(info)))
            known = cls.open(path)  # another process may have been first
        if differences := known.identity.differences(identity):
            remedy = "choose a new directory, or remove this one to rank anew"
            raise UsageError(f"{path}: it holds the blocks of another ranking", differences, remedy)
        return known

    @classmethod
    def open(cls, path: Path) -> RankingDirectory:
        """The ranking in a directory.

        Raises:
            DataError: There is none, or its description is damaged.
        """
        with _accessing(path):
            problem = f"it has no {MANIFEST}" if path.is_dir() else "there is no such directory"
            if not (path / MANIFEST).is_file():
                raise DataError(f"{path}: not the directory of a ranking", [problem], "kgprobe rank --blocks makes one")
        entry = read_json(path / MANIFEST, _FIELDS, "rank again into a new directory")
        try:
            identity = RankingIdentity(**entry["identity"])
            files = tuple(ModelFile(**file) for file in entry["files"])
            ranking = cls(path, identity, files, Plan.of_json(entry["plan"]))
        except (TypeError, ValueError, KeyError) as error:
            problem = f"{type(error).__name__}: {error}"
            raise _invalid(path, problem) from None
        if entry["ranking"] != identity.hash:
            raise _invalid(path, "`ranking` is not the hash of `identity`")
        return ranking

    def _create(self, table: Ranks) -> None:
        for folder in (_BLOCKS, _RUNNING):
            require_writable(self.path / folder / "file")
        table.write(self.path / _QUERIES)
        content = {
            "ranking": self.identity.hash,
            "identity": asdict(self.identity),
            "files": [asdict(file) for file in self.files],
            "plan": self.plan.as_json(),
        }
        # The first of several processes decides on the plan: a link is made only where no file is.
        with tempfile.TemporaryDirectory(dir=self.path / _RUNNING) as folder:
            own = Path(folder) / MANIFEST
            write_json(own, content)
            try:
                os.link(own, self.path / MANIFEST)
            except FileExistsError:
                pass
            except OSError:  # a file system without hard links
                if not (self.path / MANIFEST).exists():
                    os.replace(own, self.path / MANIFEST)

    @cached_property
    def info(self) -> RanksInfo:
        """The metadata of the rank table."""
        return RankFile(self.path / _QUERIES).info

    @cached_property
    def blocks(self) -> BlockFiles:
        """The files of the blocks."""
        return BlockFiles(self.path / _BLOCKS, self.path / _RUNNING, self.identity.hash)

    def require_writable(self) -> None:
        """Raise a DataError if no block can be written."""
        require_writable(self.path / _BLOCKS / "block")

    def share(self, part: Part | None) -> tuple[Block, ...]:
        """The blocks of a part, or all blocks."""
        return self.plan.blocks if part is None else self.plan.part(part.number, part.of)

    def finished(self, blocks: Sequence[Block]) -> set[Block]:
        """Those of the blocks that are finished.

        Raises:
            DataError: There are files of other blocks.
        """
        names = self.blocks.names()
        foreign = names - {block.id(self.identity.hash) for block in self.plan.blocks}
        self.blocks.refuse([f"{name}.parquet: not a block of this ranking" for name in sorted(foreign)])
        return {block for block in blocks if block.id(self.identity.hash) in names}

    def require_sound(self, ranked: RankedTriples, blocks: Sequence[Block]) -> None:
        """Raise a DataError that lists the damaged files of these blocks."""
        self.blocks.refuse(self.blocks.problems({block: targets_of(ranked, block) for block in blocks}))

    def merged(self) -> Ranks:
        """The rank table that all blocks make: each is read once.

        Raises:
            DataError: Blocks are missing or damaged.
        """
        table = read_ranks(self.path / _QUERIES)
        sides: list[Side] = list(self.plan.queries)
        count = len(table) // max(len(sides), 1)
        triples = np.column_stack([table.head[:count], table.relation[:count], table.tail[:count]])
        ranked = RankedTriples(triples, np.arange(count), tuple(sides))
        if triples_hash(triples, sides) != self.identity.triples or count * len(sides) != len(table):
            raise DataError(
                f"{self.path / _QUERIES}: these are not the queries of this ranking",
                remedy="rank again into a new directory",
            )
        self._require_complete()
        counts = {side: Counts.zeros(count) for side in sides}
        problems = []
        for block in self.plan.blocks:
            targets = ranked.queries(block.side).targets(block.queries)
            try:
                part = self.blocks.read(block, targets_of(ranked, block))
            except DataError as error:
                problems.append(": ".join([error.title, *error.problems]))
                continue
            counts[block.side].add(targets, part)
        self.blocks.refuse(problems)
        parts = [counts[side].at(ranked.queries(side).order) for side in sides]
        return table.with_ranks(
            rank=np.concatenate([part.rank for part in parts]),
            ties=np.concatenate([part.equal for part in parts]),
            candidates=np.concatenate([part.candidates for part in parts]),
            info=table.info,
        )

    def _require_complete(self) -> None:
        finished = self.finished(self.plan.blocks)
        missing = [i for i, block in enumerate(self.plan.blocks, start=1) if block not in finished]
        if missing:
            raise DataError(
                f"{self.path}: {len(missing):,} of {len(self.plan.blocks):,} blocks are missing",
                [f"blocks {spans(missing, _NAMED)} (counted from 1)", *self._unfinished_parts(finished)],
                "rank again with the same directory: only these are counted",
            )

    def _unfinished_parts(self, finished: set[Block]) -> list[str]:
        """The parts that were not run to their end, if all finished blocks belong to parts of one division."""
        divisions = {self.blocks.record(block).part.partition("/")[2] for block in finished}
        if len(divisions) != 1 or not (text := divisions.pop()).isdigit():
            return []
        of = int(text)
        parts = [number for number in range(1, of + 1) if not finished.issuperset(self.plan.part(number, of))]
        return [f"parts {spans(parts, _NAMED)} of {of} were not run, or not to their end"]

    def status(self) -> BlockStatus:
        """How far the ranking is."""
        info = self.info
        finished = self.finished(self.plan.blocks)
        left = {block.id(self.identity.hash): block for block in self.plan.blocks if block not in finished}
        signs = [(str(left[sign.block]), sign) for sign in self.blocks.beats() if sign.block in left]
        alive = {sign.block for _, sign in signs if sign.is_alive}
        dead = {sign.block for _, sign in signs} - alive
        rate = self._rate(finished)
        workers = len({sign.place for _, sign in signs if sign.is_alive})
        pairs = sum(block.pairs for block in left.values())
        return BlockStatus(
            model=info.model or "",
            graph=info.graph or "",
            blocks=len(self.plan.blocks),
            done=len(finished),
            running=len(alive),
            stopped=len(dead),
            missing=len(left) - len(alive) - len(dead),
            pairs_per_second=rate and rate * max(workers, 1),
            seconds_left=0.0 if not left else pairs / (rate * workers) if rate and workers else None,
            signs=tuple(signs),
        )

    def _rate(self, finished: set[Block]) -> float | None:
        """Pairs that a process counts in a second, from the blocks that were finished last."""
        written: list[tuple[float, Block]] = []
        for block in finished:
            with suppress(OSError):
                written.append((self.blocks.path(block).stat().st_mtime, block))
        last = [block for _, block in sorted(written, key=lambda entry: entry[0])[-_TIMED:]]
        seconds = sum(self.blocks.record(block).seconds for block in last)
        return sum(block.pairs for block in last) / seconds if seconds > 0 else None


@contextmanager
def _accessing(path: Path) -> Iterator[None]:
    """Turn errors of the file system into a DataError: no permission, a name that is too long."""
    try:
        yield
    except OSError as error:
        remedy = "choose a folder that you may write to"
        raise DataError(f"{path}: cannot be used as the directory of a ranking", [str(error)], remedy) from None


def _require_room(path: Path) -> None:
    """Refuse a file, and a directory that holds other files than those of a ranking."""
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path}: it is a file, not a directory", remedy="choose a new directory")
    names = [entry.name for entry in path.iterdir()] if path.is_dir() else []
    others = sorted(name for name in names if name not in _OWN and not TEMPORARY.fullmatch(name))
    if others and not (path / MANIFEST).exists():
        shown = ", ".join(others[:_NAMED]) + (f" and {len(others) - _NAMED:,} more" if len(others) > _NAMED else "")
        remedy = "choose a new or an empty directory"
        raise UsageError(f"{path}: it holds other files than those of a ranking", [shown], remedy)


def _invalid(path: Path, problem: str) -> DataError:
    return DataError(f"{path / MANIFEST}: invalid content", [problem], "rank again into a new directory")


def targets_of(ranked: RankedTriples, block: Block) -> int:
    """The number of targets of a block."""
    targets = ranked.queries(block.side).targets(block.queries)
    return int(targets.stop - targets.start)
