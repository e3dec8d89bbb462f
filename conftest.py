"""Settings of all test runs: modules without doctests here, kernels, threads of workers, garbage collection."""

import gc
import os
from importlib.util import find_spec

_WITH_TRITON = ("models/sampled_scores_triton", "predict/backends/triton_kernels", "predict/backends/triton_backend")
_WITH_TRITON += ("predict/backends/fused_counts", "predict/fused_engine")
collect_ignore = ["tests/saved_models/pbg/make_pbg_checkpoints.py"]  # it needs PyTorch-BigGraph
collect_ignore += [] if find_spec("triton") else [f"src/kgprobe/{name}.py" for name in _WITH_TRITON]

# Without a GPU, Triton's interpreter runs the kernels on the CPU. It is chosen when a kernel is imported.
if not os.path.exists("/dev/nvidiactl"):
    os.environ.setdefault("TRITON_INTERPRET", "1")

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
