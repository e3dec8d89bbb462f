import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from kgprobe import resources

# A landing must not hang on how busy the machine is, nor on a lucky draw: look for new counterexamples with
# `pytest --hypothesis-profile=explore`.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("repeatable", parent=settings.get_profile("explore"), derandomize=True)

settings.load_profile("repeatable")

# What a shell starts in the background ignores interrupts, and so would the commands that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def plain_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command prints is checked without colours, even where the surroundings force them."""
    monkeypatch.delenv("FORCE_COLOR", raising=False)


@pytest.fixture(autouse=True)
def usual_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that raises the unpacking limit raises it for its own test alone."""
    monkeypatch.setattr(resources, "_allowed", 0)


@pytest.fixture(scope="session")
def window() -> Iterator[Any]:
    """A real browser. There is one in a process: Playwright refuses a second one."""
    from browser import chromium

    with chromium() as it:
        yield it


@pytest.fixture(scope="session")
def data() -> Path:
    """The directory that has graphs/ and published_ranks/."""
    roots = [Path(entry) for entry in os.environ.get("KGPROBE_DATA", "").split(os.pathsep) if entry]
    found = [root for root in roots if (root / "graphs").is_dir() and (root / "published_ranks").is_dir()]
    if not found:
        pytest.skip("KGPROBE_DATA names no directory with graphs/ and published_ranks/")
    return found[0]
