"""Open what a name or a path stands for as a model that can be ranked."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from kgprobe.arrays import AnyInts
from kgprobe.errors import DataError, UsageError, nearest
from kgprobe.graph import KnowledgeGraph
from kgprobe.predict.adapters.array_files import open_arrays
from kgprobe.predict.adapters.embedding_files import is_embeddings, open_embeddings
from kgprobe.predict.adapters.pykeen_folder import is_saved_pykeen, open_pykeen
from kgprobe.predict.adapters.pykeen_scorer import is_pykeen
from kgprobe.predict.adapters.rotate_checkpoint import is_rotate_checkpoint, open_rotate_checkpoint
from kgprobe.predict.adapters.score_files import is_scores, open_scores
from kgprobe.predict.adapters.top_k import TopKLists, Unlisted
from kgprobe.predict.adapters.top_k_files import open_top_k
from kgprobe.predict.baselines import BASELINES
from kgprobe.predict.queries import RankedTriples
from kgprobe.predict.scorers import AnyScorer, EmbeddingScorer, RelationEmbeddingScorer, ScoreFunction, Scorer, Side

RUN_FILES = ("settings.toml", "environment.json")
"""Files that make a directory that of a training run."""


@dataclass(frozen=True, eq=False)
class Model:
    """Something that can be ranked.

    Attributes:
        name: What reports call it.
        scorer: What scores candidates, or lists of the best of them.
        settings: Facts about the model that go into the rank file.
    """

    name: str
    scorer: AnyScorer | TopKLists
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class FunctionScorer:
    """A function as a scorer.

    Example:
        >>> FunctionScorer(lambda side, given, relation: [[0.5, 0.1]]).score("tail", [0], [0])
        [[0.5, 0.1]]
    """

    function: ScoreFunction

    def score(self, side: Side, given: AnyInts, relation: AnyInts) -> Any:
        """What the function gives."""
        return self.function(side, given, relation)


def model_of(given: Any, graph: KnowledgeGraph) -> Model:
    """A model that is in memory, whatever it is.

    Example:
        >>> model_of(lambda side, given, relation: None, KnowledgeGraph.from_triples(test=[[0, 0, 1]])).name
        'function'
    """
    if isinstance(given, Model):
        return given
    if isinstance(given, TopKLists):
        return Model("top-k lists", given)
    if isinstance(given, EmbeddingScorer | RelationEmbeddingScorer | Scorer):
        return Model(type(given).__name__, given)
    if is_pykeen(getattr(given, "model", given)):
        return _pykeen_model(given, graph)
    if callable(given):
        name = getattr(given, "__name__", "function")
        return Model("function" if name == "<lambda>" else name, FunctionScorer(given))
    raise UsageError(
        f"{type(given).__name__} is nothing that can be ranked",
        ["it has neither 'score' nor 'encode_queries' and 'candidates', and is no function"],
        "see kgprobe.predict.scorers for what a model must offer",
    )


def _pykeen_model(given: Any, graph: KnowledgeGraph) -> Model:
    """A PyKEEN model, or the result of its pipeline, which also tells the names that its ids stand for."""
    from kgprobe.predict.adapters.pykeen_names import ModelNames, scorer_for

    model = getattr(given, "model", given)
    training: Any = None if model is given else getattr(given, "training", None)
    names = ModelNames.of(training) if hasattr(training, "entity_to_id") else None
    return Model(type(model).__name__, scorer_for(model, graph, names), {"library": "pykeen"})


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
    facts: RankedTriples
    seed: int = 0
    trust_pickle: bool = False
    unlisted: Unlisted = Unlisted.unknown
    other_test: bool = False


@dataclass(frozen=True)
class Adapter:
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


def is_trained(path: Path) -> bool:
    """Whether a path is the directory of a training run, or a checkpoint in it.

    Example:
        >>> is_trained(Path("no such file.safetensors"))
        False
    """
    if path.is_dir():
        return all((path / name).is_file() for name in RUN_FILES)
    if path.suffix != ".safetensors" or not path.is_file():
        return False
    try:
        header = json.loads(open_arrays(path).header or "null")
    except (DataError, ValueError):
        return False
    return isinstance(header, dict) and "kind" in header


def _open_trained(path: Path, opening: Opening) -> Model:
    try:
        trained_models: Any = import_module("kgprobe.train.trained_models")
    except ModuleNotFoundError as error:
        raise UsageError(f"{path}: it needs {error.name}", remedy="pip install 'kgprobe[models]'") from None
    model: Model = trained_models.open_trained(path, opening)
    return model


ADAPTERS = (
    Adapter(
        "a run of 'kgprobe train', or a checkpoint in its folder 'best' or 'snapshots'",
        is_trained,
        _open_trained,  # by name: `train` stands on this package, and loads torch
    ),
    Adapter(
        "a folder of the RotatE code base (entity_embedding.npy, relation_embedding.npy, config.json)",
        is_rotate_checkpoint,
        lambda path, opening: Model(*open_rotate_checkpoint(path, opening.graph)),
    ),
    Adapter(
        "a folder that PyKEEN saved",
        is_saved_pykeen,
        lambda path, opening: Model(*open_pykeen(path, opening.graph, trust_pickle=opening.trust_pickle)),
    ),
    Adapter(
        "an embedding file (.npz or .safetensors with a header)",
        is_embeddings,
        lambda path, opening: Model(*open_embeddings(path, opening.graph, opening.facts.given)),
    ),
    Adapter(
        "a score file (.npz, .safetensors or a folder of .npy with a matrix 'tail' or 'head')",
        is_scores,
        lambda path, opening: Model(*open_scores(path, opening.graph, opening.facts.given)),
    ),
    Adapter(
        "top-k lists (.jsonl, .jsonl.gz)",
        lambda path: path.name.endswith((".jsonl", ".jsonl.gz")),
        _top_k,
    ),
)
"""Every kind of model on disk; the first that is meant is opened."""


def open_model(text: str | os.PathLike[str], opening: Opening) -> Model:
    """The model of a name or a path.

    Example:
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[1, 0, 0]])
        >>> open_model("random", Opening(graph, RankedTriples.build(graph))).name
        'random'
    """
    name, path = os.fspath(text), Path(text)
    if name in BASELINES:
        return Model(*BASELINES[name](opening.graph, opening.seed))
    source = next((source for source in ADAPTERS if path.exists() and source.is_meant(path)), None)
    if source is not None:
        return source.open(path, opening)
    there = (
        "it is nothing that is known" if path.exists() else f"there is no such file or folder{nearest(name, BASELINES)}"
    )
    kinds = [f"a baseline: {', '.join(BASELINES)}", *(source.what for source in ADAPTERS)]
    raise DataError(f"{name}: no model", [there], "it can be " + "; ".join(kinds))
