"""What the name or path of a model means: each kind of file says whether it is meant, and is opened."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kgprobe.errors import DataError, nearest
from kgprobe.graph import KnowledgeGraph
from kgprobe.predict.baselines import BASELINES
from kgprobe.predict.facts import Facts
from kgprobe.predict.model import Model
from kgprobe.predict.sources.embeddings import is_embeddings, open_embeddings
from kgprobe.predict.sources.pykeen.saved import is_saved_pykeen, open_pykeen
from kgprobe.predict.sources.rotate_checkpoint import is_rotate_checkpoint, open_rotate_checkpoint
from kgprobe.predict.sources.scores import is_scores, open_scores
from kgprobe.predict.sources.top_k import Unlisted, open_top_k


@dataclass(frozen=True, eq=False)
class Opening:
    """What a model is opened for, and how.

    Attributes:
        graph: The graph that is ranked.
        facts: The facts that are ranked.
        seed: The seed of a random baseline.
        trust_pickle: Whether a pickled model, which can run any program, may be loaded.
        unlisted: What is known of candidates that a top-k list leaves out.
        other_test: Whether the graph may have another test split than the one that a model was trained with.
    """

    graph: KnowledgeGraph
    facts: Facts
    seed: int = 0
    trust_pickle: bool = False
    unlisted: Unlisted = Unlisted.unknown
    other_test: bool = False


@dataclass(frozen=True)
class Source:
    """A kind of model on disk.

    Attributes:
        what: What it is called in messages.
        is_meant: Whether a path is of this kind.
        open: Opens it.
    """

    what: str
    is_meant: Callable[[Path], bool]
    open: Callable[[Path, Opening], Model]


def _top_k(path: Path, opening: Opening) -> Model:
    lists = open_top_k(path, opening.graph, opening.unlisted)
    return Model(path.name.split(".jsonl")[0], lists, {"unlisted": str(opening.unlisted)})


SOURCES = [
    Source(
        "a folder of the RotatE code base (entity_embedding.npy, relation_embedding.npy, config.json)",
        is_rotate_checkpoint,
        lambda path, opening: Model(*open_rotate_checkpoint(path, opening.graph)),
    ),
    Source(
        "a folder that PyKEEN saved",
        is_saved_pykeen,
        lambda path, opening: Model(*open_pykeen(path, opening.graph, trust_pickle=opening.trust_pickle)),
    ),
    Source(
        "an embedding file (.npz or .safetensors with a header)",
        is_embeddings,
        lambda path, opening: Model(*open_embeddings(path, opening.graph, opening.facts.given)),
    ),
    Source(
        "a score file (.npz, .safetensors or a folder of .npy with a matrix 'tail' or 'head')",
        is_scores,
        lambda path, opening: Model(*open_scores(path, opening.graph, opening.facts.given)),
    ),
    Source(
        "top-k lists (.jsonl, .jsonl.gz)",
        lambda path: path.name.endswith((".jsonl", ".jsonl.gz")),
        lambda path, opening: _top_k(path, opening),
    ),
]
"""Every kind of model on disk; the first that is meant is opened."""


def register(source: Source) -> None:
    """Add a kind of model that another part of the package opens; it is asked before those that are known here.

    Example:
        >>> register(SOURCES[0])  # once more, which changes nothing
        >>> len(SOURCES) == len(set(SOURCES))
        True
    """
    if source not in SOURCES:
        SOURCES.insert(0, source)


def open_model(text: str | os.PathLike[str], opening: Opening) -> Model:
    """The model of a name or a path.

    Example:
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[1, 0, 0]])
        >>> open_model("random", Opening(graph, Facts.build(graph))).name
        'random'
    """
    name, path = os.fspath(text), Path(text)
    if name in BASELINES:
        return Model(*BASELINES[name](opening.graph, opening.seed))
    source = next((source for source in SOURCES if path.exists() and source.is_meant(path)), None)
    if source is not None:
        return source.open(path, opening)
    there = (
        "it is nothing that is known" if path.exists() else f"there is no such file or folder{nearest(name, BASELINES)}"
    )
    kinds = [f"a baseline: {', '.join(BASELINES)}", *(source.what for source in SOURCES)]
    raise DataError(f"{name}: no model", [there], "it can be " + "; ".join(kinds))
