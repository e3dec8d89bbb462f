"""Why a trained model of rules answers as it does, in one call."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kgprobe.errors import UsageError
from kgprobe.graph import KnowledgeGraph

if TYPE_CHECKING:
    from kgprobe.models.rules.answers import Answers


def explain(
    run: str | os.PathLike[str],
    query: str,
    *,
    graph: KnowledgeGraph | str | os.PathLike[str] | None = None,
    select: str | None = None,
    seed: int | None = None,
    candidates: Sequence[str] = (),
    top: int = 5,
    rules: int = 5,
    new: bool = False,
) -> Answers:
    """The best answers of a model of rules to a query, with the rules that put them there.

    Args:
        run: The directory of a run, or a checkpoint in it.
        query: "head, relation, ?" or "?, relation, tail", by names or ids.
        graph: The graph of the run; None to look for it by its name.
        select: The metric whose best checkpoint is meant; None for the first of the run.
        seed: The seed; None for the first of the run.
        candidates: Further answers that are wanted, by names or ids.
        top: How many of the best answers.
        rules: How many rules of each answer, at most.
        new: Whether the best are looked for among answers that are not known.

    Raises:
        UsageError: The run has no rules, the query names what the graph does not know, or torch is not installed.
        DataError: The run is damaged, or has learned another graph.
    """
    try:
        from kgprobe.models.rules.question import Vocabulary
        from kgprobe.models.rules.why import Explainer
        from kgprobe.train.run.rules import open_rules
    except ModuleNotFoundError as error:
        raise UsageError(f"{run}: it needs {error.name}", remedy="pip install 'kgprobe[models]'") from None
    opened = open_rules(run, graph, select=select, seed=seed)
    words = Vocabulary(opened.graph)
    question = words.question(query)
    wanted = words.entities(list(candidates))
    return Explainer(opened.scorer, opened.graph).answers(question, wanted, top=top, rules=rules, new=new)
