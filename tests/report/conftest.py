from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kgprobe as kp
from browser import Opened, made_graph, made_tables, opened, write


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of three made-up models on a made-up graph."""
    return write(
        tmp_path_factory.mktemp("made") / "made.html", made_tables(), made_graph(), command="kgprobe report it"
    )


@pytest.fixture(scope="session")
def _tab(window: Any, made: Path) -> Iterator[Opened]:
    with opened(window, made) as it:
        it.go()
        yield it


@pytest.fixture
def it(_tab: Opened) -> Iterator[Opened]:
    """The made-up page, open, in its first state; nothing must go wrong with it."""
    _tab.at()
    yield _tab
    assert _tab.complaints == []


@pytest.fixture(scope="session")
def wn18rr(data: Path) -> dict[str, kp.Ranks]:
    """The published ranks of wn18rr by model."""
    files = sorted((data / "published_ranks" / "wn18rr").glob("*.parquet"))
    return {file.stem: kp.read_ranks(file) for file in files}


@pytest.fixture(scope="session")
def published(wn18rr: dict[str, kp.Ranks], data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the published ranks of wn18rr."""
    graph = kp.load_graph(data / "graphs" / "wn18rr")
    return write(tmp_path_factory.mktemp("published") / "published.html", wn18rr, graph)
