"""Where a run was trained, and with what."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from kgprobe.graph import KnowledgeGraph
from kgprobe.ranks.schema import package_version
from kgprobe.train.keep import Facts
from kgprobe.train.run.graph_facts import graph_facts

GRAPH = "graph"


def environment(graph: KnowledgeGraph, device: str = "cpu", threads: int | None = None) -> Facts:
    """The versions, the machine and the graph of a run.

    Args:
        graph: The graph.
        device: The device of torch.
        threads: Threads on the CPU; None for torch's own choice.

    Example:
        >>> found = environment(KnowledgeGraph.from_triples(train=[[0, 0, 1]], name="tiny"), threads=1)
        >>> found["threads"], found["graph"]["name"]
        (1, 'tiny')
    """
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
        GRAPH: graph_facts(graph),
    }


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What is no longer as it was, so that the numbers of a run that goes on may differ in their last digits.

    Example:
        >>> changes({"torch": "2.4", "threads": 2}, {"torch": "2.4", "threads": 1})
        ['threads was 2 and is 1']
    """
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
