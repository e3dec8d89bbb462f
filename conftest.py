"""Settings of all test runs: modules without doctests here, threads of workers, garbage collection."""

import gc
import os
from importlib.util import find_spec

collect_ignore = [] if find_spec("triton") else ["src/kgprobe/models/sampled_scores_triton.py"]

# More threads than cores wait for each other: a small training takes a hundred times as long.
# Tests of several threads set them explicitly.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")

gc.disable()  # while tests are collected nothing is garbage


def pytest_collection_finish() -> None:
    """Exclude the collected tests from garbage collection: each pass over them takes half a second."""
    gc.collect()
    gc.freeze()
    gc.enable()
