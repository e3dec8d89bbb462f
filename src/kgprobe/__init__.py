"""kgprobe: how good is a knowledge graph completion model, from the perspective you need?

The way through the package:

- ``graph = kp.load_graph("family-tree")`` loads a graph by directory or name.
- ``ranks = kp.rank(model, graph)`` ranks a model; ``kp.read_ranks`` and ``kp.import_ranks`` read ranks from files.
- ``kp.evaluate(ranks, "MRR", by="relation")`` and ``kp.surface(ranks)`` evaluate ranks.
- ``kp.compare([a, b])``, ``kp.decide([a, b], alpha, beta)`` and ``kp.decision_map([a, b])`` compare models.
- ``kp.check([a, b], graph)`` audits ranks before they are compared.
- ``kp.estimate_closed([a, b], missing=0.2, graph=graph)`` estimates scores on a graph without missing triples.
- ``kp.fit("rotate", graph)`` trains a model, ``kp.explain`` explains predictions of rule-based ones.
- ``kp.study("study.toml", "folder")`` repeats a whole evaluation, with a verdict on every claim.

``ranks`` is a table, a file or its path; ``graph`` is a graph, its directory or its name. Results are tables:
``to_pandas()``, ``to_polars()``, ``to_arrow()``; many have ``plot()``.

Example:
    >>> import kgprobe as kp
    >>> ranks = kp.Ranks.from_columns(
    ...     head=[0, 0], relation=[0, 0], tail=[1, 1], side=["head", "tail"], rank=[1, 2], candidates=[5, 5]
    ... )
    >>> kp.evaluate(ranks, ["MRR", "PROBE(alpha=0)"])
    {'MRR': 0.75, 'PROBE(alpha=0,beta=0)': 0.7846617...}
"""

from importlib import import_module
from typing import TYPE_CHECKING

from kgprobe import metrics
from kgprobe.aggregate import Surface, surface
from kgprobe.audit import Audit, Finding, check
from kgprobe.decision import Decision, DecisionMap, decide, decision_map
from kgprobe.errors import DataError, KgprobeError, UsageError
from kgprobe.graph import KnowledgeGraph, load_graph
from kgprobe.metrics import METRICS, Metric, RankAccumulator, Score, Scores, evaluate, parse, scores
from kgprobe.predict import (
    Dot,
    EmbeddingScorer,
    GroupNorm,
    Model,
    QueryCandidates,
    Ray,
    RelationCandidates,
    Resources,
    Scorer,
    rank,
)
from kgprobe.ranks import RankFile, Ranks, RanksInfo, concatenate, merge_seeds, read_ranks
from kgprobe.report import Report, compare

if TYPE_CHECKING:
    from kgprobe.openworld import (
        Estimation,
        OpenWorld,
        Sensitivity,
        estimate_closed,
        read_world,
        sensitivity,
        split_world,
    )
    from kgprobe.ranks.importers import import_ranks
    from kgprobe.studies import StudyResult, open_study, study
    from kgprobe.train import Answers, Fitted, explain, fit

# Loaded when first used: they need scipy, torch or more of pyarrow.
_LAZY = {
    "kgprobe.openworld": (
        "Estimation",
        "OpenWorld",
        "Sensitivity",
        "estimate_closed",
        "read_world",
        "sensitivity",
        "split_world",
    ),
    "kgprobe.ranks.importers": ("import_ranks",),
    "kgprobe.studies": ("StudyResult", "open_study", "study"),
    "kgprobe.train": ("Answers", "Fitted", "explain", "fit"),
}


class _NotInstalledError(UsageError, AttributeError):
    """A name needs a package that is not installed; help() and completion pass over an AttributeError."""


def __getattr__(name: str) -> object:
    for module, names in _LAZY.items():
        if name in names:
            try:
                return getattr(import_module(module), name)
            except ModuleNotFoundError as error:
                needed = (error.name or "").partition(".")[0]
                raise _NotInstalledError(
                    f"kgprobe.{name} needs {needed}", remedy="pip install 'kgprobe[models]'"
                ) from None
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    # Graphs and ranks
    "KnowledgeGraph",
    "Ranks",
    "RanksInfo",
    "RankFile",
    "load_graph",
    "read_ranks",
    "import_ranks",
    "concatenate",
    "merge_seeds",
    # Ranking a model
    "Model",
    "Scorer",
    "EmbeddingScorer",
    "Dot",
    "GroupNorm",
    "QueryCandidates",
    "Ray",
    "RelationCandidates",
    "Resources",
    "rank",
    # Metrics
    "METRICS",
    "Metric",
    "RankAccumulator",
    "Score",
    "Scores",
    "Surface",
    "evaluate",
    "metrics",
    "parse",
    "scores",
    "surface",
    # Comparing models
    "Audit",
    "Decision",
    "DecisionMap",
    "Finding",
    "Report",
    "check",
    "compare",
    "decide",
    "decision_map",
    # Training and explaining
    "Answers",
    "Fitted",
    "explain",
    "fit",
    # Missing triples
    "Estimation",
    "OpenWorld",
    "Sensitivity",
    "estimate_closed",
    "read_world",
    "sensitivity",
    "split_world",
    # Studies
    "StudyResult",
    "open_study",
    "study",
    # Errors
    "DataError",
    "KgprobeError",
    "UsageError",
]
