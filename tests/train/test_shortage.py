"""Memory that is short: real requests that no machine can grant, and errors that have nothing to do with it."""

import re
from typing import Any

import pytest
import torch

from kgprobe.errors import DataError
from kgprobe.train.shortage import naming_what_to_lower
from runs import quick_settings
from trainings import settings_of, trained

# Dense enough to be beyond any machine, in all the ways that torch says so.
SIZES = [10**13, 10**15, 10**18, 10**20]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_too_many_negatives(size: int) -> None:
    with pytest.raises(DataError, match="not enough memory") as error:
        trained(settings_of("complex", "self_adversarial", negatives=size))
    assert error.value.problems == [
        "batch_size is 32",
        f"negatives is {size}",
        "dimension is 4",
        "2 seeds are trained at once",
    ]
    assert re.search("batch_size.*negatives.*dimension", error.value.remedy)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("kind", ["one", "all_binary"])
def test_too_many_coordinates(size: int, kind: str) -> None:
    with pytest.raises(DataError, match="not enough memory") as error:
        trained(settings_of("complex", kind, dimension=size, seeds=(0,)))
    assert error.value.problems == ["batch_size is 32", f"dimension is {size}"]
    assert "negatives" not in error.value.remedy


@pytest.mark.parametrize(
    "shortage",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3.81 TiB."),
        MemoryError(),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("CUDA error: out of memory"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_the_ways_in_which_a_device_says_it(shortage: Exception) -> None:
    with pytest.raises(DataError, match="not enough memory") as error, naming_what_to_lower(quick_settings()):
        raise shortage
    assert error.value.__cause__ is shortage


@pytest.mark.parametrize("other", [RuntimeError("shapes do not match"), TypeError("no"), KeyError("x")], ids=str)
def test_other_errors_are_left_alone(other: Any) -> None:
    with pytest.raises(type(other)) as error, naming_what_to_lower(quick_settings()):
        raise other
    assert error.value is other
