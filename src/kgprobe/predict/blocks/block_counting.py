"""Rank by blocks: count the blocks that are missing, in this process or by another executor, and merge them."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from kgprobe.errors import DataError
from kgprobe.graph import GraphLike, as_graph
from kgprobe.graph.load import find_graph
from kgprobe.predict.adapters.opening import Model, Opening, find_adapter, open_model
from kgprobe.predict.baselines import BASELINES
from kgprobe.predict.blocks.block_files import here
from kgprobe.predict.blocks.block_plan import Block, Part
from kgprobe.predict.blocks.ranking_directory import RankingDirectory, targets_of
from kgprobe.predict.blocks.ranking_identity import scorer_of
from kgprobe.predict.engine import count
from kgprobe.predict.scorers import AnyScorer, EmbeddingScorer
from kgprobe.predict.setting import Setting
from kgprobe.predict.tasks import Counts, Task
from kgprobe.ranks import RanksInfo
from kgprobe.resources import Progress, Resources

BLOCKS_PER_WORKER = 12
"""Blocks for each worker, at least, so that all end at about the same time: one block more than an even share takes a
twelfth of the time."""


@dataclass(frozen=True)
class Recipe:
    """How a process opens the graph and the model of a ranking by itself: the arguments of `rank`.

    Attributes:
        model: The path of the model, or the name of a baseline.
        graph: The graph; better its path or its name.
        choices: The arguments of `Setting.build`.
        options: Further arguments of `Opening`.
        folder: The folder that relative paths start from.
        data: The folders in which graphs are looked up by name, unless the process has its own.
    """

    model: str
    graph: GraphLike
    choices: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    folder: str = field(default_factory=os.getcwd)
    data: str = field(default_factory=lambda: os.environ.get("KGPROBE_DATA", ""))

    def require_found(self) -> None:
        """Raise a DataError if there is no such graph or model, before anything is started to open them."""
        with suppress(OSError):  # no permission, or not a valid name: reported when they are opened
            if isinstance(self.graph, str | os.PathLike):
                find_graph(self.graph)
            if self.model not in BASELINES:
                find_adapter(Path(self.model))

    def open(self) -> tuple[Setting, Model]:
        """The evaluation setting and the model, in a process that moves to the folder: files may be read later."""
        os.environ.setdefault("KGPROBE_DATA", self.data)
        if not os.path.isdir(self.folder):
            raise DataError(f"{self.folder}: there is no such folder here", remedy="give absolute paths, or share it")
        os.chdir(self.folder)
        setting = Setting.build(as_graph(self.graph), **self.choices)
        model = open_model(self.model, Opening(setting.graph, setting.ranked, **self.options))
        return setting.limited(model.sets), model


@dataclass(frozen=True, eq=False)
class BlockRanking:
    """A ranking by blocks in its directory.

    Attributes:
        setting: The evaluation setting.
        scorer: The model.
        directory: The directory.
        resources: Device, threads and memory.
        progress: Called with the number of queries ranked since the last call.
        part: The share of the blocks that is counted; None for all.
    """

    setting: Setting
    scorer: AnyScorer
    directory: RankingDirectory
    resources: Resources
    progress: Progress
    part: Part | None = None

    def count(self, session: Session) -> None:
        """Count the blocks that are missing.

        Raises:
            DataError: Files of finished blocks are damaged, or belong to another ranking; or none can be written.
        """
        share = self.directory.share(self.part)
        finished = self.directory.finished(share)
        self.directory.require_sound(self.setting.ranked, [block for block in share if block in finished])
        self.directory.require_writable()
        for block in finished:
            self.progress(self.queries(block))
        missing = [block for block in share if block not in finished]
        if missing:
            session.count(self, missing)

    def queries(self, block: Block) -> float:
        """The share of a block in the queries of the rank table."""
        return targets_of(self.setting.ranked, block) * self.share_of_entities(block)

    def share_of_entities(self, block: Block) -> float:
        return len(block.entities) / max(self.setting.graph.num_entities, 1)

    def write(self, block: Block, counts: Counts, seconds: float, place: str = "") -> None:
        """Write the counts of a finished block."""
        self.directory.blocks.write(block, counts, seconds, str(self.part or ""), place)


class Executor(Protocol):
    """What counts blocks, in this process or elsewhere."""

    def session(self, recipe: Recipe | None, device: str) -> AbstractContextManager[Session]:
        """Start what counts blocks on a device, while this process opens the graph and the model.

        Raises:
            UsageError: It cannot count without a recipe.
        """
        ...


class Session(Protocol):
    """An executor from its start to its end."""

    @property
    def workers(self) -> int:
        """The number of workers among which blocks are divided."""
        ...

    def resources(self, resources: Resources) -> Resources:
        """The resources of a worker."""
        ...

    def count(self, ranking: BlockRanking, blocks: Sequence[Block]) -> None:
        """Count these blocks and write their counts."""
        ...


def count_block(
    setting: Setting, scorer: AnyScorer, block: Block, resources: Resources, progress: Progress = lambda targets: None
) -> Counts:
    """The counts of the targets of a block.

    Example:
        >>> from kgprobe.graph import KnowledgeGraph
        >>> from kgprobe.predict.baselines import EntityFrequency
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1], [2, 0, 1]], test=[[0, 0, 2]])
        >>> block = Block("tail", range(0, 1), range(0, 3))
        >>> count_block(Setting.build(graph, filter="none"), EntityFrequency(graph), block, Resources()).rank.tolist()
        [2.5]
    """
    queries = setting.ranked.queries(block.side).part(block.queries)
    task = Task(setting.graph, queries, setting.known, setting.sets, block.entities)
    return count(scorer, task, resources, progress)


@dataclass(frozen=True)
class ThisProcess:
    """Counts blocks in this process, one after the other, with all threads; or one on each of several devices.

    Blocks that another process is counting come last: other processes may be working in the same directory.
    """

    workers = 1

    def session(self, recipe: Recipe | None, device: str) -> AbstractContextManager[Session]:
        return nullcontext(self)

    def resources(self, resources: Resources) -> Resources:
        return resources

    def count(self, ranking: BlockRanking, blocks: Sequence[Block]) -> None:
        resources, scorer = ranking.directory.plan.resources(ranking.resources), ranking.scorer
        devices = resources.devices if isinstance(scorer, EmbeddingScorer) else resources.devices[:1]
        waiting, lock = _Waiting(ranking.directory, blocks), threading.Lock()

        def work(device: str) -> None:
            own = replace(resources, device=device)
            while True:
                with lock:
                    block = waiting.next()
                if block is None:
                    return
                self._count(ranking, block, own)

        if len(devices) == 1:
            work(devices[0])
            return
        with ThreadPoolExecutor(len(devices)) as pool:
            for ended in [pool.submit(work, device) for device in devices]:
                ended.result()

    def _count(self, ranking: BlockRanking, block: Block, resources: Resources) -> None:
        if ranking.directory.blocks.is_finished(block):  # by another process
            ranking.progress(ranking.queries(block))
            return
        start, share = time.monotonic(), ranking.share_of_entities(block)

        def progress(targets: float) -> None:
            ranking.progress(targets * share)

        with ranking.directory.blocks.beating(block):
            counts = count_block(ranking.setting, ranking.scorer, block, resources, progress)
            ranking.write(block, counts, time.monotonic() - start)


class _Waiting:
    """Blocks in order; those that another process is counting come last."""

    def __init__(self, directory: RankingDirectory, blocks: Sequence[Block]) -> None:
        self._directory, self._blocks, self._last = directory, deque(blocks), deque[Block]()

    def next(self) -> Block | None:
        ranking = self._directory.identity.hash
        while self._blocks:
            block = self._blocks.popleft()
            if block.id(ranking) not in self._taken():
                return block
            self._last.append(block)
        return self._last.popleft() if self._last else None

    def _taken(self) -> set[str]:
        return {sign.block for sign in self._directory.blocks.beats() if sign.is_alive and sign.place != here()}


@dataclass(frozen=True)
class ByBlocks:
    """How a ranking is divided and continued.

    Attributes:
        path: The directory of its blocks.
        session: What counts the blocks.
        part: The share of the blocks that is counted; None for all.
    """

    path: Path
    session: Session = field(default_factory=ThisProcess)
    part: Part | None = None

    def count(
        self, setting: Setting, model: Model, info: RanksInfo, resources: Resources, progress: Progress
    ) -> RankingDirectory:
        """Count the blocks that are missing in the directory, which is created or joined."""
        scorer, resources = scorer_of(model), self.session.resources(resources)
        workers = max(self.part.of if self.part else 0, self.session.workers)
        least = BLOCKS_PER_WORKER * workers if workers > 1 else 1
        directory = RankingDirectory.join(self.path, setting, model, info, resources, least)
        BlockRanking(setting, scorer, directory, resources, progress, self.part).count(self.session)
        return directory
