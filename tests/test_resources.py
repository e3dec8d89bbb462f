import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

import kgprobe.resources as module
from kgprobe.errors import UsageError
from kgprobe.resources import (
    Resources,
    TooLarge,
    parse_memory,
    raise_unpacking_limit,
    require_unpackable,
    single_blas_thread,
    unpacking_limit,
)

_GROWS = """
import numpy as np
import psutil
from kgprobe.resources import peak_memory
before = peak_memory()["host"]
grown = np.ones(1 << 25)  # a quarter of a gibibyte
print(peak_memory()["host"] - before, peak_memory()["host"] / psutil.Process().memory_info().rss)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell")
def test_what_a_process_has_held_at_most_is_its_own_and_grows_with_what_it_holds() -> None:
    held = np.ones(1 << 26)  # half a gibibyte here is none there
    told = subprocess.run([sys.executable, "-c", _GROWS], capture_output=True, check=True, text=True).stdout
    grown, of_what_it_holds = map(float, told.split())
    assert held.all()
    assert (1 << 27) < grown < (1 << 29)
    assert 0.9 < of_what_it_holds < 1.2


@given(st.integers(0, 50), st.integers(1, 60))
def test_ranges_cover_every_entity_once(entities: int, shards: int) -> None:
    ranges = Resources(shards=shards).ranges(entities)
    assert [entity for part in ranges for entity in part] == list(range(entities))
    assert len(ranges) <= shards
    assert all(len(part) for part in ranges)
    assert max((len(part) for part in ranges), default=0) <= -(-entities // shards)


@given(st.integers(0, 10**13), st.integers(1, 10**6), st.integers(1 << 20, 1 << 40))
def test_as_many_queries_as_memory_has_room_for(each: int, most: int, memory: int) -> None:
    found = Resources(memory=memory).queries(each, most)
    assert 1 <= found <= most
    assert found == 1 or found * each <= memory
    assert found == most or (found + 1) * each > memory
    assert Resources(memory=memory, batch=7).queries(each, most) == 7


def test_workers() -> None:
    assert Resources(threads=3).workers == 3
    assert Resources().workers == len(os.sched_getaffinity(0))


def test_workers_where_a_process_cannot_be_bound_to_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert Resources().workers == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert Resources().workers == 1


def test_all_that_makes_no_sense_is_named() -> None:
    with pytest.raises(UsageError, match="invalid resources") as error:
        Resources(threads=0, memory=5, batch=-1, tile=0, shards=0)
    assert error.value.problems == [
        "threads is 0, and must be at least 1",
        "memory is 5, and must be at least 1,048,576",
        "batch is -1, and must be at least 1",
        "tile is 0, and must be at least 1",
        "shards is 0, and must be at least 1",
    ]
    assert Resources(threads=1, memory=1 << 20, batch=1, tile=1, shards=1).memory == 1 << 20


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("4096", 4096),
        ("1k", 1 << 10),
        ("1kb", 1 << 10),
        ("1 KiB", 1 << 10),
        ("512MB", 512 << 20),
        (" 2 GB ", 2 << 30),
        ("1.5g", 3 << 29),
        ("0.5T", 1 << 39),
        ("7b", 7),
    ],
)
def test_memory_as_people_write_it(text: str, size: int) -> None:
    assert parse_memory(text) == size


@pytest.mark.parametrize("text", ["", "much", "-1GB", "1 2 GB", "GB", "1.GB", "1PB", "1GBs", "nan", "1e9"])
def test_what_is_no_amount_of_memory(text: str) -> None:
    with pytest.raises(UsageError, match="is not an amount of memory") as error:
        parse_memory(text)
    assert error.value.remedy == "write it as 512MB or 4GB"


def threads_of_blas() -> list[int]:
    np.ones((2, 2)) @ np.ones((2, 2))
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_blas_has_one_thread_for_as_long_as_it_should() -> None:
    before = threads_of_blas()
    assert before
    with single_blas_thread():
        assert set(threads_of_blas()) == {1}
    assert threads_of_blas() == before
    with pytest.raises(ZeroDivisionError), single_blas_thread():
        _ = 1 / 0
    assert threads_of_blas() == before


def test_without_the_library_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    before = threads_of_blas()
    with single_blas_thread():
        assert threads_of_blas() == before


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file system of control groups, in which this process is in a/b."""
    (tmp_path / "cgroup").write_text("0::/a/b\n")
    (tmp_path / "fs" / "a" / "b").mkdir(parents=True)
    monkeypatch.setattr(module, "_CGROUP", tmp_path / "cgroup")
    monkeypatch.setattr(module, "_CGROUP_LIMITS", {tmp_path / "fs": "memory.max"})
    module.machine_memory.cache_clear()
    yield tmp_path / "fs"
    module.machine_memory.cache_clear()


def test_memory_of_the_machine(group: Path) -> None:
    assert module.machine_memory() == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("folder", ["a/b", "a", "."])
def test_a_control_group_has_less_memory(group: Path, folder: str) -> None:
    (group / "a" / "b" / "memory.max").write_text("max\n")
    (group / folder / "memory.max").write_text("1073741824\n")
    assert module.machine_memory() == 1 << 30
    assert unpacking_limit() == 1 << 29


def test_a_process_has_less_memory() -> None:
    code = "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31)); "
    code += "from kgprobe.resources import unpacking_limit; print(unpacking_limit())"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout
    assert int(told) <= 1 << 30


def test_the_limit_is_raised_and_never_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_allowed", 0)
    monkeypatch.setattr(module, "machine_memory", lambda: 2000)
    require_unpackable(1000)
    with pytest.raises(TooLarge, match=r"a file unpacks to 1,001 bytes, more than the limit of 1,000 bytes.*--memory"):
        require_unpackable(1001, "a file")
    raise_unpacking_limit(500)
    assert unpacking_limit() == 1000
    raise_unpacking_limit(5000)
    assert unpacking_limit() == 5000
    require_unpackable(5000)


@pytest.mark.parametrize("text", ["9" * 400, "9" * 400 + "GB", "1" + "0" * 30 + "T"])
def test_more_memory_than_any_machine_has(text: str) -> None:
    with pytest.raises(UsageError, match="more memory than any machine has") as caught:
        parse_memory(text)
    assert len(caught.value.title) < 120
