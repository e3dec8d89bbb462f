from pathlib import Path

import pytest

import kgprobe as kp
from kgprobe.ranks import Ranks
from planting import honest


@pytest.fixture(scope="session")
def umls(data: Path) -> kp.KnowledgeGraph:
    return kp.load_graph(data / "graphs/umls")


@pytest.fixture(scope="session")
def codex(data: Path) -> kp.KnowledgeGraph:
    return kp.load_graph(data / "graphs/codex-s")


@pytest.fixture(scope="session")
def nations(data: Path) -> kp.KnowledgeGraph:
    return kp.load_graph(data / "graphs/nations")


@pytest.fixture(scope="session")
def on_umls(umls: kp.KnowledgeGraph) -> dict[str, Ranks]:
    return honest(umls)


@pytest.fixture(scope="session")
def on_codex(codex: kp.KnowledgeGraph) -> dict[str, Ranks]:
    return honest(codex)


@pytest.fixture(scope="session")
def on_nations(nations: kp.KnowledgeGraph) -> dict[str, Ranks]:
    return honest(nations)
