"""Steps that are captured."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from kgprobe.models.noise import Noise
from kgprobe.train.step import Steps, uncollected


class _Ring:
    """Something that only a collection can free."""

    def __init__(self) -> None:
        self.itself = self


def test_what_earlier_trainings_left_is_freed_before_a_capture_and_nothing_within() -> None:
    before = _Ring()
    earlier = weakref.ref(before)
    del before
    with uncollected():
        assert earlier() is None
        later = weakref.ref(_Ring())
        for _ in range(5_000):
            _Ring()
        assert later() is not None
    gc.collect()
    assert later() is None


@pytest.mark.parametrize("enabled", [True, False])
def test_collection_is_left_as_it_was_found_after_an_error_too(enabled: bool) -> None:
    if not enabled:
        gc.disable()
    try:
        with pytest.raises(RuntimeError, match="capture"), uncollected():
            raise RuntimeError("capture")
        assert gc.isenabled() is enabled
    finally:
        gc.enable()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_captured_step_that_waits_to_be_collected_does_not_break_the_next_capture() -> None:
    device = torch.device("cuda")
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(3):
            assert _counted(device) == 10
    finally:
        gc.set_threshold(*threshold)


def _counted(device: torch.device) -> float:
    """What ten steps that each add one make; their captured step is left to the collector."""
    total = torch.zeros((), device=device)

    def take() -> None:
        for _ in range(100):
            _Ring()
        total.add_(1)

    steps = Steps(take, Noise([0], device))
    ring = _Ring()
    ring.steps = steps  # type: ignore[attr-defined]
    steps.run(10)
    return total.item()
