"""A Ray cluster of several nodes on this machine, with real processes that can be killed."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psutil

_NOTICED_SOON = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 500,
    "health_check_failure_threshold": 3,
}

"""A node that died is noticed within seconds, not within half a minute."""

_STORE = 80 << 20


class RayCluster:
    """Four nodes with a CPU each. The first one holds the cluster together."""

    def __init__(self, nodes: int = 4) -> None:
        from ray.cluster_utils import Cluster

        first = {"num_cpus": 1, "object_store_memory": _STORE, "_system_config": _NOTICED_SOON}
        self._cluster = Cluster(initialize_head=True, head_node_args=first)
        self._others = [self._node() for _ in range(nodes - 1)]
        self._cluster.wait_for_nodes()

    def _node(self) -> Any:
        return self._cluster.add_node(num_cpus=1, object_store_memory=_STORE)

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def workers(self) -> list[psutil.Process]:
        """The processes that count blocks."""
        found = []
        for node in (self._cluster.head_node, *self._others):
            with suppress(psutil.NoSuchProcess):
                children = psutil.Process(_raylet(node)).children()
                found += [child for child in children if child.name().startswith("ray::_Worker")]
        return found

    def kill_worker(self, rng: random.Random) -> bool:
        """Kill a process that counts blocks; whether there was one."""
        workers = self.workers()
        if workers:
            with suppress(psutil.NoSuchProcess):
                rng.choice(workers).kill()
        return bool(workers)

    def kill_node(self, rng: random.Random) -> None:
        """Kill the raylet of a node other than the first, and start another node in its place."""
        node = self._others.pop(rng.randrange(len(self._others)))
        with suppress(ProcessLookupError):
            os.kill(_raylet(node), signal.SIGKILL)
        self._others.append(self._node())

    def stop(self) -> None:
        self._cluster.shutdown()


def _raylet(node: Any) -> int:
    return int(node.all_processes["raylet"][0].process.pid)


@contextmanager
def ray_cluster() -> Iterator[RayCluster]:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    cluster = RayCluster()
    try:
        yield cluster
    finally:
        cluster.stop()
