import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from pykeen.models import model_resolver
from pykeen.triples import KGInfo

from kgprobe.graph import KnowledgeGraph

Write = Callable[[Iterable[Any]], Path]


@pytest.fixture
def people() -> KnowledgeGraph:
    """Five people and two relations; two of the people have the same name."""
    return KnowledgeGraph.from_triples(
        train=[[0, 0, 1], [0, 0, 2]],
        test=[[0, 0, 3], [1, 1, 0]],
        name="people",
        entity_labels=["Ada", "Bob", "Cy", "Di", "Eve", "Eve"],
        relation_labels=["knows", "likes"],
    )


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A file of lines, each an object or the text itself."""

    def lines(entries: Iterable[Any]) -> Path:
        path = tmp_path / "answers.jsonl"
        texts = (entry if isinstance(entry, str) else json.dumps(entry) for entry in entries)
        path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        return path

    return lines


ENTITIES, RELATIONS = 23, 5


def stirred(model, seed: int = 0):
    """The model with weights, and statistics of batch normalisation, that no initialiser would choose."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if tensor.is_floating_point() and "regularizer" not in name:
                noise = torch.randn(tensor.shape, generator=draw, dtype=tensor.dtype)
                tensor.copy_(noise.abs() + 0.5 if "running_var" in name else noise)
    return model


@pytest.fixture
def make():
    """Makes a model by name, with weights that are not those of any initialiser."""

    def make(name: str, *, inverse: bool = False, entities: int = ENTITIES, relations: int = RELATIONS, **settings):
        sizes = KGInfo(entities, relations, create_inverse_triples=inverse)
        settings.setdefault("random_seed", 0)
        return stirred(model_resolver.lookup(name)(triples_factory=sizes, **settings))

    return make
