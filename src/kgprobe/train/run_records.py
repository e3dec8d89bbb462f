"""Records of a run: log, validation curve, environment, the graph it was trained on, and its result."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kgprobe.bounded_files import parse_json
from kgprobe.errors import DataError
from kgprobe.files import replacing
from kgprobe.graph import KnowledgeGraph
from kgprobe.json_files import field_problems, read_json
from kgprobe.ranks.metadata import package_version
from kgprobe.train.checkpoints import GRAPH_FIELDS, Metadata
from kgprobe.train.settings import Settings

GRAPH = "graph"
SETTINGS_ENTRY = "settings"
"""Entry of the environment: the settings that a run began with, which runs of earlier versions do not record."""

LOG_HASH = "log_hash"
"""Entry of the result: the SHA-256 of the log, which results of earlier versions do not have."""

RESTORE = "restore what is damaged, or replace the run with `force=True`"

_RANK_AGAIN = "remove it and resume the run: the result is computed again from the checkpoints"


def graph_metadata(graph: KnowledgeGraph) -> Metadata:
    """Name, content hashes and size of a graph."""
    return {
        "name": graph.name,
        "content_hash": graph.content_hash,
        "learned_hash": graph.learned_hash,
        "entities": graph.num_entities,
        "relations": graph.num_relations,
    }


def other_graph(learned: Mapping[str, Any], graph: KnowledgeGraph, *, other_test: bool = False) -> list[str]:
    """The problem if a graph is not the one that a model was trained on; an empty list if it is.

    Args:
        learned: `graph_metadata` of the training graph.
        graph: The graph.
        other_test: Whether its test split may differ.

    Example:
        >>> small, large = (KnowledgeGraph.from_triples(train=[[0, 0, n]], name=f"of {n + 1}") for n in (1, 2))
        >>> other_graph(graph_metadata(small), small)
        []
        >>> other_graph(graph_metadata(small), large)
        ['it was trained on of 2 (2 entities, 1 relations, content ...), and of 3 (3 entities, ...) is another graph']
    """
    given = graph_metadata(graph)
    # Runs of early versions have no hash without the test split.
    told = "learned_hash" if other_test and "learned_hash" in learned else "content_hash"
    if all(learned[key] == given[key] for key in (told, "entities", "relations")):
        return []
    return [f"it was trained on {_described(learned)}, and {_described(given)} is another graph"]


def _described(about: Mapping[str, Any]) -> str:
    sizes = f"{about['entities']:,} entities, {about['relations']:,} relations"
    return f"{about['name']} ({sizes}, content {about['content_hash'][:12]})"


def environment(graph: KnowledgeGraph, device: str = "cpu", threads: int | None = None) -> Metadata:
    """The versions, the machine and the graph of a run."""
    return {
        "kgprobe": package_version(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "device": device,
        "device_name": _device_name(device),
        "threads": threads or torch.get_num_threads(),
        GRAPH: graph_metadata(graph),
    }


def read_environment(path: Path) -> Metadata:
    """Read the versions, the machine, the graph and the settings that a run was started with.

    Raises:
        DataError: The file is missing or damaged.
    """
    content = read_json(path, {GRAPH: GRAPH_FIELDS}, RESTORE, lambda content: SETTINGS_ENTRY not in content)
    if problems := list(field_problems(content, {SETTINGS_ENTRY: dict} if SETTINGS_ENTRY in content else {})):
        raise DataError(f"{path}: invalid content", problems, RESTORE)
    return content


_RESULT_FIELDS = {"epochs": int, "seconds": float, "training_seconds": float, "targets": dict}


def read_result(path: Path, settings: Settings) -> Metadata:
    """Read the result of a finished run.

    Raises:
        DataError: The file is missing or damaged, or is not of a run with these settings.
    """
    result = read_json(path, _RESULT_FIELDS, _RANK_AGAIN, lambda content: LOG_HASH not in content)
    lists = dict.fromkeys(settings.select, list)
    sides = {"test": {"both": lists, "head": lists, "tail": lists}}
    ranked = settings.select if result["targets"] else ()  # there are none without test triples
    problems = list(field_problems(result["targets"], dict.fromkeys(ranked, sides), "targets."))
    if not problems:
        problems = [
            f"targets.{target}.test.{side}.{name} has {len(values)} values, and the run {len(settings.seeds)} seeds"
            for target in ranked
            for side, metrics in result["targets"][target]["test"].items()
            for name, values in metrics.items()
            if len(values) != len(settings.seeds)
        ]
    if problems:
        raise DataError(f"{path}: invalid content", problems, _RANK_AGAIN)
    return result


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Differences between two environments."""
    return [
        f"{name} was {before.get(name)} and is {value}"
        for name, value in now.items()
        if name != GRAPH and before.get(name) != value
    ]


def _device_name(device: str) -> str:
    kind = torch.device(device)
    return torch.cuda.get_device_name(kind) if kind.type == "cuda" else _processor()


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


class RunLog:
    """Log of a run in JSON Lines; it is cut back when the run continues from an earlier state."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def length(self) -> int:
        """Length in bytes."""
        return self.path.stat().st_size if self.path.exists() else 0

    def add(self, row: Mapping[str, Any]) -> None:
        """Append a row and flush it to disk."""
        with _writing(self.path), self.path.open("ab") as file:
            file.write(json.dumps(row).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def cut(self, length: int) -> None:
        """Remove all rows after the first ``length`` bytes."""
        if self.length < length:
            problem = f"it has {self.length:,} bytes, and had {length:,} when the state of the run was saved"
            raise DataError(f"{self.path}: rows are missing", [problem], "replace the run with force=True")
        if self.length > length:
            with _writing(self.path):
                os.truncate(self.path, length)

    def hash(self, length: int | None = None) -> str:
        """The SHA-256 of the first ``length`` bytes, by default of all."""
        return hashlib.sha256(self._content()[:length]).hexdigest()

    def rows(self) -> list[Metadata]:
        lines = self._content().decode("utf-8", errors="replace").splitlines()
        problems: list[str] = []
        rows = [row for number, line in enumerate(lines, 1) if (row := _row(number, line, problems)) is not None]
        if problems:
            raise DataError(f"{self.path}: not the log of a run", problems, "replace the run with force=True")
        return rows

    def _content(self) -> bytes:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise DataError(f"{self.path}: cannot be read", [error.strerror or str(error)], RESTORE) from None


def _row(number: int, line: str, problems: list[str]) -> Metadata | None:
    try:
        row = parse_json(line)
    except ValueError:
        row = None
    if not isinstance(row, dict):
        problems.append(f"row {number} is no JSON object: {line[:60]!r}")
        return None
    wrong = list(field_problems(row, _ROW_FIELDS))
    lists = [] if wrong else [row["loss"], *row["scores"].values()]
    if any(not isinstance(values, list) or len(values) != len(row["loss"]) for values in lists):
        wrong.append("it has another number of scores than of losses")
    problems += [f"row {number}: {problem}" for problem in wrong]
    return row


_ROW_FIELDS = {"epoch": int, "seconds": float, "loss": list, "scores": dict}


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(f"{path}: cannot be written", [str(error)], "check that the disk has space left") from None


def write_curve(path: Path, rows: Iterable[Metadata], seeds: Sequence[int]) -> None:
    """Write the validation curve as CSV: one line for each validation, selection metric and seed."""
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("epoch", "seconds", "seed", "target", "score", "loss"))
        for row in rows:
            writer.writerows(_lines(row, seeds))


def _lines(row: Metadata, seeds: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    for target, scores in row["scores"].items():
        for seed, score, loss in zip(seeds, scores, row["loss"], strict=True):
            yield row["epoch"], row["seconds"], seed, target, score, loss
