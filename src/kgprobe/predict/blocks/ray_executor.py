"""Ray: blocks are counted by the nodes of a Ray cluster, whose workers open the model from storage by themselves."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import sys
import threading
import time
import warnings
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from kgprobe.errors import DataError, KgprobeError, UsageError, one_line
from kgprobe.predict.blocks.block_counting import BlockRanking, Recipe, count_block
from kgprobe.predict.blocks.block_files import here
from kgprobe.predict.blocks.block_plan import Block
from kgprobe.predict.blocks.ranking_identity import ModelFile, RankingIdentity, model_files, scorer_of
from kgprobe.ranks import RanksInfo
from kgprobe.resources import Resources

if TYPE_CHECKING:
    from kgprobe.predict.tasks import Counts

_QUEUED = 2
"""Blocks that a worker has at a time, so that it never waits for the next one."""

_ATTEMPTS = 5
"""How often a block is tried on workers that die."""

_POLL = 1.0

_ANSWER = 10.0
"""Seconds in which the cluster must answer at its address."""

_PATIENCE = 60.0
"""Seconds without any worker after which a warning is given."""


@dataclass(frozen=True)
class Ray:
    """Counts blocks on a Ray cluster.

    Every worker opens the graph and the model by itself, so their paths must lead to the same files on every node. The
    counts come back to this process, which writes them into the directory of the ranking.

    Attributes:
        address: The address of the cluster, or "auto" for the one that this machine belongs to; None to start Ray on
            this machine alone.
        workers: Number of workers; None for as many as the cluster has room for.
        cpus: CPUs, and threads, of each worker; None for those of the smallest node, or for 1 if it has a GPU.
        gpus: GPUs of each worker, also a fraction; None for 1 if the device is a GPU, else for none.

    Example:
        >>> Ray("auto", gpus=0.5)
        Ray(address='auto', workers=None, cpus=None, gpus=0.5)
    """

    address: str | None = None
    workers: int | None = None
    cpus: int | None = None
    gpus: float | None = None

    def __post_init__(self) -> None:
        limits = {"workers": 1, "cpus": 1, "gpus": 0}
        given = {name: getattr(self, name) for name in limits}
        problems = [f"{name} is {value}" for name, value in given.items() if value is not None and value < limits[name]]
        if problems:
            raise UsageError("invalid arguments of Ray", problems, "workers and cpus are at least 1, gpus at least 0")

    @contextmanager
    def session(self, recipe: Recipe | None, device: str) -> Iterator[_Session]:
        """Workers on the cluster, which open the graph and the model while this process does.

        Raises:
            UsageError: Workers cannot open the model by themselves, or Ray is not installed.
        """
        if recipe is None:
            raise UsageError(
                "workers of Ray open the model by themselves",
                ["this model is in the memory of this process"],
                "save it, and give its path",
            )
        if find_spec("ray") is None:
            raise UsageError("Ray is not installed", remedy="pip install 'kgprobe[ray]'")
        recipe.require_found()
        # Processes that Ray starts on this machine end with the thread that has started them.
        with _ended_by_sigterm(), ThreadPoolExecutor(1, "ray") as thread:
            kept = ExitStack()
            begun = thread.submit(self._begin, recipe, device, kept)
            try:
                yield _Session(begun)
            finally:
                thread.submit(kept.close).result()

    def _begin(self, recipe: Recipe, device: str, kept: ExitStack) -> _Crew:
        """Connect to the cluster and hire workers."""
        kept.enter_context(_connection(self.address))
        crew = _Crew(self._shape(device), recipe)
        kept.callback(crew.dismiss_all)
        return crew

    def _nodes(self) -> list[dict[str, float]]:
        """The resources of the nodes that work."""
        return [node["Resources"] for node in _ray().nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]

    def _shape(self, device: str) -> _Shape:
        """What a worker takes, and the number of workers."""
        nodes = self._nodes()
        gpus = self.gpus if self.gpus is not None else float(device.startswith("cuda"))
        able = [node for node in nodes if node.get("GPU", 0) >= min(gpus, 1)] if gpus else nodes
        if not able:
            problem = "no node has a GPU" if gpus else "no node has a CPU"
            raise DataError(
                "the Ray cluster has no room for a worker", [problem], "add nodes, or choose other resources"
            )
        cpus = self.cpus or (1 if gpus else int(min(node["CPU"] for node in able)))
        room = sum(int(min(node["CPU"] // cpus, node.get("GPU", 0) // gpus if gpus else node["CPU"])) for node in able)
        return _Shape(cpus, gpus, self.workers or max(1, room))


class _Shape(NamedTuple):
    """CPUs and GPUs of a worker, and the number of workers."""

    cpus: int
    gpus: float
    workers: int


@contextmanager
def _connection(address: str | None) -> Iterator[None]:
    """A connection to a Ray cluster, unless this process has one; the cluster of this machine alone ends with it."""
    ray = _ray()
    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to others
    own = {"include_dashboard": False} if address is None else {}
    try:
        _require_reachable(address)
        # Without an address, Ray would look for a cluster that somebody else has started.
        ray.init(address=address or "local", log_to_driver=False, logging_level=logging.ERROR, **own)
    except (OSError, ValueError, RuntimeError) as error:
        problem = (str(error).splitlines() or [type(error).__name__])[0][:200]
        remedy = "start it with `ray start --head`, or leave out the address to use this machine alone"
        raise DataError(f"{address or 'this machine'}: no Ray cluster can be used", [problem], remedy) from None
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM, by which a scheduler ends a job, stop the processes of Ray too."""
    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    if ours:
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _require_reachable(address: str | None) -> None:
    """Raise an OSError if nothing answers at HOST:PORT: Ray would try for many minutes."""
    match = re.fullmatch(r"([^/:]+):(\d{1,5})", address or "")
    if match:
        socket.create_connection((match[1], int(match[2])), timeout=_ANSWER).close()


def _ray() -> Any:
    import ray

    return ray


class _Worker:
    """A worker on a node of the cluster: it opens the model once, and counts blocks."""

    def open(self, recipe: Recipe) -> None:
        """Open the graph and the model."""
        self._setting, self._model = recipe.open()

    def join(
        self,
        opened: None,
        expected: RankingIdentity,
        files: Sequence[ModelFile],
        info: RanksInfo,
        resources: Resources,
    ) -> str:
        """Join a ranking, after `open`; returns where this worker is.

        Raises:
            DataError: The graph or the model is not that of the ranking.
        """
        found = RankingIdentity.of(self._setting, self._model, info, model_files(self._model.files, files))
        if differences := expected.differences(found):
            raise DataError(f"{here()}: this worker sees another model or graph", differences, _SAME_FILES)
        self._resources = resources
        return here()

    def count(self, block: Block) -> tuple[Counts, float]:
        """The counts of a block, and the seconds that they took."""
        start = time.monotonic()
        counts = count_block(self._setting, scorer_of(self._model), block, self._resources)
        return counts, time.monotonic() - start


_SAME_FILES = "the paths of model and graph must lead to the same files on every node"


class _Waiting:
    """Blocks that no worker has, by range of entities: a worker stays with a range, whose embeddings it has read."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._blocks: dict[range, deque[Block]] = {}
        for block in blocks:
            self.put(block)

    def put(self, block: Block) -> None:
        self._blocks.setdefault(block.entities, deque()).append(block)

    def next(self, held: range | None, in_use: Counter[range]) -> Block | None:
        """A block of the range that a worker holds, or of the one with the most blocks for each worker that has it."""
        left = {entities: len(blocks) for entities, blocks in self._blocks.items() if blocks}
        if not left:
            return None
        if held is None or held not in left:
            held = max(left, key=lambda entities: left[entities] / (1 + in_use[entities]))
        return self._blocks[held].popleft()


@dataclass(eq=False)
class _Hired:
    """A worker as the driver sees it.

    Attributes:
        actor: The handle of the actor.
        opened: The task that opens the model there.
        place: Machine and process; empty until it has joined the ranking.
        held: The range of entities of its last block.
        signs: The signs of life of its blocks.
    """

    actor: Any
    opened: Any
    place: str = ""
    held: range | None = None
    signs: dict[Block, ExitStack] = field(default_factory=dict)


class _Crew:
    """The workers of a session. Each opens the graph and the model as soon as it is hired."""

    def __init__(self, shape: _Shape, recipe: Recipe) -> None:
        self.shape, self._recipe = shape, recipe
        self.hired: list[_Hired] = []
        for _ in range(shape.workers):
            self.hire()

    def hire(self) -> _Hired:
        options = {"num_cpus": self.shape.cpus, "num_gpus": self.shape.gpus, "max_restarts": 0}
        actor = _ray().remote(**options)(_Worker).remote()
        worker = _Hired(actor, actor.open.remote(self._recipe))
        self.hired.append(worker)
        return worker

    def dismiss(self, worker: _Hired) -> None:
        self.hired.remove(worker)
        for signs in worker.signs.values():
            signs.close()
        with suppress(Exception):  # it is dead, or the cluster is
            _ray().kill(worker.actor)

    def dismiss_all(self) -> None:
        for worker in list(self.hired):
            self.dismiss(worker)


class _Session:
    """A connection to a cluster with its workers, which is made while the driver goes on."""

    def __init__(self, begun: Future[_Crew]) -> None:
        self._begun = begun

    @property
    def crew(self) -> _Crew:
        """The workers, once the cluster is there."""
        return self._begun.result()

    @property
    def workers(self) -> int:
        """The number of workers for which the cluster has room."""
        return self.crew.shape.workers

    def resources(self, resources: Resources) -> Resources:
        """The resources with the CPUs of a worker."""
        return replace(resources, threads=self.crew.shape.cpus)

    def count(self, ranking: BlockRanking, blocks: Sequence[Block]) -> None:
        """Count blocks on the workers of the cluster.

        Raises:
            DataError: A worker found the model or the graph to be others, or workers died too often.
        """
        _Driver(self.crew, ranking, blocks).run()


class _Driver:
    """Hands blocks to workers, replaces workers that die, and writes the counts."""

    def __init__(self, crew: _Crew, ranking: BlockRanking, blocks: Sequence[Block]) -> None:
        self._ray, self._crew, self._ranking = _ray(), crew, ranking
        self._size = min(crew.shape.workers, len(blocks))
        self._waiting, self._left = _Waiting(blocks), len(blocks)
        self._attempts: Counter[Block | None] = Counter()
        self._tasks: dict[Any, tuple[_Hired, Block | None]] = {}

    def run(self) -> None:
        """Count all blocks."""
        active = time.monotonic()
        for worker in self._crew.hired[self._size :]:
            self._crew.dismiss(worker)
        for worker in self._crew.hired:
            self._take_in(worker)
        while self._left:
            while len(self._crew.hired) < self._size:
                self._take_in(self._crew.hire())
            ready, _ = self._ray.wait(list(self._tasks), timeout=_POLL)
            for task in ready:
                self._end(task)
            if any(worker.place for worker in self._crew.hired):
                active = time.monotonic()
            elif time.monotonic() - active > _PATIENCE:
                warnings.warn("no worker has opened the model yet: the cluster may have no room", stacklevel=2)
                active = time.monotonic()

    def _take_in(self, worker: _Hired) -> None:
        """Let a worker join the ranking."""
        directory = self._ranking.directory
        resources = directory.plan.resources(self._ranking.resources)
        about = directory.identity, directory.files, directory.info, resources
        self._tasks[worker.actor.join.remote(worker.opened, *about)] = worker, None

    def _end(self, task: Any) -> None:
        """Take the result of a task, and give its worker the next block."""
        worker, block = self._tasks.pop(task)
        try:
            result = self._ray.get(task)
        except self._ray.exceptions.RayTaskError as error:
            raise _cause(error) from None
        except self._ray.exceptions.RayError as error:
            self._lost(worker, block, error)
            return
        if block is None:
            worker.place = result
        else:
            counts, seconds = result
            self._ranking.write(block, counts, seconds, worker.place)
            self._ranking.progress(self._ranking.queries(block))
            worker.signs.pop(block).close()
            self._left -= 1
        while len(worker.signs) < _QUEUED and self._give(worker):
            pass

    def _give(self, worker: _Hired) -> bool:
        """Give a worker the next block, if there is one."""
        in_use = Counter(other.held for other in self._crew.hired if other is not worker and other.held is not None)
        block = self._waiting.next(worker.held, in_use)
        if block is None:
            return False
        worker.held, signs = block.entities, ExitStack()
        signs.enter_context(self._ranking.directory.blocks.beating(block, worker.place))
        worker.signs[block] = signs
        self._tasks[worker.actor.count.remote(block)] = worker, block
        return True

    def _lost(self, worker: _Hired, block: Block | None, error: Exception) -> None:
        """Put the block of a worker that died back; further blocks that it had end in the same way."""
        reason = one_line(str(error))[:400]
        if block is not None:
            self._waiting.put(block)
        if worker in self._crew.hired:
            self._crew.dismiss(worker)
            warnings.warn(f"a worker died ({worker.place or 'before it had opened the model'}): {reason}", stacklevel=2)
        self._attempts[block] += 1
        if self._attempts[block] >= _ATTEMPTS * (1 if block else self._size):
            raise DataError(
                f"{_ATTEMPTS} workers have died " + (f"while they counted {block}" if block else "at the start"),
                [f"the last one: {reason}"],
                "see the logs of Ray on that node; if it is short of memory, use fewer workers or less `memory`",
            )


def _cause(error: Any) -> Exception:
    """The error of kgprobe that a worker has raised, or one that names what went wrong there."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, KgprobeError):
        return cause
    lines = str(error).strip().splitlines()[-8:]
    return DataError("a worker of Ray failed", lines, "this is an error of the model, or of kgprobe")
