"""What is remembered of the surroundings of a run, and what is said when they have changed."""

import json
import platform

import numpy as np
import torch

from kgprobe.train.run.environment import changes, environment
from runs import small_graph


def test_versions_machine_and_graph_are_named() -> None:
    graph = small_graph()
    found = environment(graph, threads=3)
    assert json.loads(json.dumps(found)) == found
    assert (found["python"], found["torch"], found["numpy"]) == (
        platform.python_version(),
        torch.__version__,
        np.__version__,
    )
    assert found["threads"] == 3
    assert found["graph"] == {
        "name": "small",
        "content_hash": graph.content_hash,
        "learned_hash": graph.learned_hash,
        "entities": 12,
        "relations": 2,
    }


def test_all_changes_are_named_but_those_of_the_graph() -> None:
    before = environment(small_graph(), threads=2)
    now = environment(small_graph(seed=1), threads=1) | {"torch": "9"}
    assert changes(before, before) == []
    assert changes(before, now) == [f"torch was {torch.__version__} and is 9", "threads was 2 and is 1"]
