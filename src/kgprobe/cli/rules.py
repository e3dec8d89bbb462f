"""``kgprobe rules``: what a model of rules has learned, as logic that people can read."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kgprobe.cli.console import Format, note, print_rows
from kgprobe.cli.options import FormatOption
from kgprobe.errors import UsageError

if TYPE_CHECKING:
    from kgprobe.arrays import AnyInts


RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run of a model of rules, or a checkpoint in it.", show_default=False)
]

RunGraphOption = Annotated[
    str | None,
    typer.Option("--graph", "-g", metavar="GRAPH", help="Directory or name of its graph.", show_default="by its name"),
]

RunSelectOption = Annotated[
    str | None,
    typer.Option("--select", metavar="METRIC", help="The metric that chose the checkpoint.", show_default="the first"),
]

RunSeedOption = Annotated[
    int | None, typer.Option("--seed", metavar="N", help="The seed of the run.", show_default="the first")
]


class Sort(StrEnum):
    """What rules are put in order by."""

    weight = "weight"
    confidence = "confidence"
    support = "support"


_TOP = 20


def rules(
    run: RunArgument,
    relation: Annotated[
        list[str] | None,
        typer.Option(metavar="R", help="Relations whose rules are shown, by name or id. May be repeated."),
    ] = None,
    graph: RunGraphOption = None,
    select: RunSelectOption = None,
    seed: RunSeedOption = None,
    top: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Rules of each relation.", show_default=f"{_TOP} with --relation, else 1"
        ),
    ] = None,
    sort: Annotated[Sort, typer.Option(help="What rules are put in order by.")] = Sort.weight,
    format: FormatOption = Format.table,  # noqa: A002
) -> None:
    """Show the rules of a model: the best one of every relation, or those of the relations you name.

    The weight of a rule is by how much one path of it alone moves a score, where tails and where heads are predicted.
    Its support is the number of training facts that follow from it, and its confidence the share of what follows from
    it that are training facts.
    """
    require_models(run)
    from kgprobe.models.rules.explanations import rule_rows
    from kgprobe.models.rules.written_queries import Vocabulary
    from kgprobe.train.trained_models import open_rules

    opened = open_rules(run, graph, select=select, seed=seed)
    wanted = list(dict.fromkeys(Vocabulary(opened.graph).relations(relation))) if relation else None
    most = top or (_TOP if wanted else 1)
    rows = rule_rows(opened.scorer, opened.graph, relations=wanted, sort=sort, top=most)
    if rows or format is not Format.table:
        print_rows(rows, format)
    learned = opened.scorer.rules
    _remark(opened.name, learned.head % max(learned.relations, 1), wanted)


def require_models(run: Path) -> None:
    """Complain where what opens a trained model is not installed."""
    from importlib.util import find_spec

    missing = [name for name in ("torch", "safetensors", "scipy") if find_spec(name) is None]
    if missing:
        raise UsageError(f"{run}: it needs {' and '.join(missing)}", remedy="pip install 'kgprobe[models]'")


def _remark(model: str, concluded: AnyInts, wanted: Sequence[int] | None) -> None:
    import numpy as np

    counted = concluded if wanted is None else concluded[np.isin(concluded, wanted)]
    about = f"{len(np.unique(counted)):,} relations" if wanted is None else "these relations"
    note(f"{model} has {len(counted):,} rules of {about}, those for tails and for heads counted apart")
