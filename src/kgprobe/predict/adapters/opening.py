"""Open models by name, path or Python object: baselines, trained runs, and the adapters of other formats."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from kgprobe.arrays import AnyInts
from kgprobe.bounded_files import parse_json
from kgprobe.errors import DataError, UsageError, nearest
from kgprobe.graph import KnowledgeGraph
from kgprobe.predict.adapters.dgl_ke_folder import is_dgl_ke, open_dgl_ke
from kgprobe.predict.adapters.embedding_files import is_embeddings, open_embeddings
from kgprobe.predict.adapters.libkge import is_libkge, open_libkge
from kgprobe.predict.adapters.list_matching import ListOptions
from kgprobe.predict.adapters.marius_folder import is_marius, open_marius
from kgprobe.predict.adapters.pbg_checkpoint import is_pbg_checkpoint, open_pbg_checkpoint
from kgprobe.predict.adapters.pbg_export import is_pbg_export, open_pbg_export
from kgprobe.predict.adapters.pykeen_folder import is_saved_pykeen, open_pykeen
from kgprobe.predict.adapters.pykeen_scorer import is_pykeen
from kgprobe.predict.adapters.rotate_checkpoint import is_rotate_checkpoint, open_rotate_checkpoint
from kgprobe.predict.adapters.score_files import is_scores, open_scores
from kgprobe.predict.adapters.top_k import TopKLists
from kgprobe.predict.adapters.top_k_files import lists_of, open_top_k
from kgprobe.predict.array_files import list_arrays
from kgprobe.predict.baselines import BASELINES
from kgprobe.predict.queries import RankedTriples
from kgprobe.predict.scorers import AnyScorer, EmbeddingScorer, RelationEmbeddingScorer, ScoreFunction, Scorer, Side
from kgprobe.predict.tasks import RelationCandidates
from kgprobe.ranks import TrainingInfo

RUN_FILES = ("settings.toml", "environment.json")
"""Files that identify the directory of a training run."""


@dataclass(frozen=True, eq=False)
class Model:
    """A model to rank.

    Attributes:
        name: Its name in reports.
        scorer: A scorer, or top-k lists.
        settings: Metadata about the model for the rank file.
        training: How kgprobe trained it, if it did.
        files: The files that it was read from; they decide its ranks.
        baseline: The name and the seed of a baseline.
        sets: The entities that it has as candidates on each side of a relation; None if it has all.
    """

    name: str
    scorer: AnyScorer | TopKLists
    settings: dict[str, Any] = field(default_factory=dict)
    training: TrainingInfo | None = None
    files: tuple[Path, ...] = ()
    baseline: str = ""
    sets: RelationCandidates | None = None


@dataclass(frozen=True)
class FunctionScorer:
    """The scorer of a function."""

    function: ScoreFunction

    def score(self, side: Side, given: AnyInts, relation: AnyInts) -> Any:
        return self.function(side, given, relation)


def model_of(given: Any, graph: KnowledgeGraph, lists: ListOptions | None = None) -> Model:
    """The model of a Python object: a scorer, a PyKEEN model, a function, or top-k lists.

    Args:
        given: The object.
        graph: The graph.
        lists: How top-k lists are read and ranked, if they are given as records.

    Example:
        >>> model_of(lambda side, given, relation: None, KnowledgeGraph.from_triples(test=[[0, 0, 1]])).name
        'function'
    """
    if isinstance(given, Model):
        return given
    if isinstance(given, Sequence) and all(isinstance(record, Mapping) for record in given):
        given = lists_of(given, graph, lists)
    if isinstance(given, TopKLists):
        return Model("top-k lists", given, {"unlisted": str(given.unlisted)})
    if isinstance(given, EmbeddingScorer | RelationEmbeddingScorer | Scorer):
        return Model(type(given).__name__, given)
    if is_pykeen(getattr(given, "model", given)):
        return _pykeen_model(given, graph)
    if callable(given):
        name = getattr(given, "__name__", "function")
        return Model("function" if name == "<lambda>" else name, FunctionScorer(given))
    raise UsageError(
        f"{type(given).__name__} cannot be ranked",
        ["it is not a function, and has neither 'score' nor 'encode_queries' and 'candidates'"],
        "implement one of the protocols in kgprobe.predict.scorers",
    )


def _pykeen_model(given: Any, graph: KnowledgeGraph) -> Model:
    """A PyKEEN model, or the result of PyKEEN's pipeline, which also has the names of entities and relations."""
    from kgprobe.predict.adapters.pykeen_names import ModelNames, scorer_for

    model = getattr(given, "model", given)
    training: Any = None if model is given else getattr(given, "training", None)
    names = ModelNames.of(training) if hasattr(training, "entity_to_id") else None
    return Model(type(model).__name__, scorer_for(model, graph, names), {"library": "pykeen"})


@dataclass(frozen=True, eq=False)
class Opening:
    """The arguments with which a model is opened.

    Attributes:
        graph: The graph.
        ranked: The ranked triples.
        seed: The seed of the random baseline.
        trust_pickle: Whether to load a pickled model, which can run any code.
        lists: How top-k lists are read and ranked.
        other_test: Whether the test split may differ from the one of the graph that the model was trained on.
    """

    graph: KnowledgeGraph
    ranked: RankedTriples
    seed: int = 0
    trust_pickle: bool = False
    lists: ListOptions = field(default_factory=ListOptions)
    other_test: bool = False


@dataclass(frozen=True)
class Adapter:
    """A format of models on disk.

    Attributes:
        what: Its description in messages.
        matches: Whether a path has this format.
        open: Opens the model.
    """

    what: str
    matches: Callable[[Path], bool]
    open: Callable[[Path, Opening], Model]


def _top_k(path: Path, opening: Opening) -> Model:
    lists = open_top_k(path, opening.graph, opening.lists)
    return Model(path.name.split(".jsonl")[0], lists, {"unlisted": str(lists.unlisted)})


def is_trained(path: Path) -> bool:
    """Whether a path is the directory of a training run, or one of its checkpoints."""
    if path.is_dir():
        return all((path / name).is_file() for name in RUN_FILES)
    if path.suffix != ".safetensors" or not path.is_file():
        return False
    try:
        header = parse_json(list_arrays(path).header or "null")
    except (DataError, ValueError):
        return False
    return isinstance(header, dict) and "kind" in header


def _open_trained(path: Path, opening: Opening) -> Model:
    try:  # by name, because kgprobe.train imports this package, and is slow to load
        trained_models: Any = import_module("kgprobe.train.trained_models")
    except ModuleNotFoundError as error:
        raise UsageError(f"{path}: it needs {error.name}", remedy="pip install 'kgprobe[models]'") from None
    model: Model = trained_models.open_trained(path, opening)
    return model


def _of_pbg(opened: Callable[..., Any], path: Path, opening: Opening) -> Model:
    name, scorer, settings, sets = opened(path, opening.graph, opening.ranked.given)
    return Model(name, scorer, settings, sets=sets)


ADAPTERS = (
    Adapter("a run of 'kgprobe train', or a checkpoint in its folder 'best' or 'snapshots'", is_trained, _open_trained),
    Adapter(
        "a folder of the RotatE code base, or of OGB's (entity_embedding.npy, relation_embedding.npy, config.json)",
        is_rotate_checkpoint,
        lambda path, opening: Model(*open_rotate_checkpoint(path, opening.graph)),
    ),
    Adapter(
        "a folder that DGL-KE saved (DATASET_MODEL_entity.npy, DATASET_MODEL_relation.npy, config.json)",
        is_dgl_ke,
        lambda path, opening: Model(*open_dgl_ke(path, opening.graph)),
    ),
    Adapter(
        "a folder that Marius saved (embeddings.bin, model.pt, full_config.yaml)",
        is_marius,
        lambda path, opening: Model(*open_marius(path, opening.graph, opening.ranked.sides)),
    ),
    Adapter(
        "a checkpoint folder of PyTorch-BigGraph (checkpoint_version.txt, config.json, .h5 files)",
        is_pbg_checkpoint,
        lambda path, opening: _of_pbg(open_pbg_checkpoint, path, opening),
    ),
    Adapter(
        "an export of PyTorch-BigGraph (entity_embeddings.tsv, relation_types_parameters.tsv, config.json)",
        is_pbg_export,
        lambda path, opening: _of_pbg(open_pbg_export, path, opening),
    ),
    Adapter(
        "a folder that PyKEEN saved",
        is_saved_pykeen,
        lambda path, opening: Model(*open_pykeen(path, opening.graph, trust_pickle=opening.trust_pickle)),
    ),
    Adapter(
        "a checkpoint or package of LibKGE (.pt)",
        is_libkge,
        lambda path, opening: Model(*open_libkge(path, opening.graph, trust_pickle=opening.trust_pickle)),
    ),
    Adapter(
        "an embedding file (.npz or .safetensors with a header)",
        is_embeddings,
        lambda path, opening: Model(*open_embeddings(path, opening.graph, opening.ranked.given)),
    ),
    Adapter(
        "a score file (.npz, .safetensors or a folder of .npy with a matrix 'tail' or 'head')",
        is_scores,
        lambda path, opening: Model(*open_scores(path, opening.graph, opening.ranked.given)),
    ),
    Adapter(
        "top-k lists (.jsonl, .jsonl.gz)",
        lambda path: path.name.endswith((".jsonl", ".jsonl.gz")),
        _top_k,
    ),
)
"""The formats of models on disk; the first that matches opens the model."""


def files_at(path: Path) -> tuple[Path, ...]:
    """The file itself, or all files in a folder and its subfolders."""
    return (path,) if path.is_file() else tuple(sorted(file for file in path.rglob("*") if file.is_file()))


def with_list_options(model: Model, lists: ListOptions) -> Model:
    """The same model; a UsageError if options of top-k lists are given for another kind of model."""
    given = [f"`{one.name}`" for one in fields(lists) if getattr(lists, one.name) != one.default]
    if given and not isinstance(model.scorer, TopKLists):
        raise UsageError(f"{model.name}: {', '.join(given)} only for top-k lists", remedy="leave out these options")
    return model


def open_model(text: str | os.PathLike[str], opening: Opening) -> Model:
    """The model of a baseline's name or of a path.

    Example:
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[1, 0, 0]])
        >>> open_model("random", Opening(graph, RankedTriples.build(graph))).name
        'random'
    """
    name, path = os.fspath(text), Path(text)
    if name in BASELINES:
        baseline = Model(*BASELINES[name](opening.graph, opening.seed), baseline=f"{name} {opening.seed}")
        return with_list_options(baseline, opening.lists)
    adapter = find_adapter(path)
    model = with_list_options(adapter.open(path, opening), opening.lists)
    return model if model.files else replace(model, files=files_at(path))


def find_adapter(path: Path) -> Adapter:
    """The format of the model at a path.

    Raises:
        DataError: There is no model.
    """
    adapter = next((adapter for adapter in ADAPTERS if path.exists() and adapter.matches(path)), None)
    if adapter is None:
        absent = f"there is no such file or folder{nearest(str(path), BASELINES)}"
        problem = "not a recognised model file or folder" if path.exists() else absent
        kinds = [f"a baseline: {', '.join(BASELINES)}", *(adapter.what for adapter in ADAPTERS)]
        raise DataError(f"{path}: no model", [problem], "it can be " + "; ".join(kinds))
    return adapter
