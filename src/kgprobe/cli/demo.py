"""``kgprobe demo``: the main job on the built-in graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kgprobe.cli.output import Format, note, print_rows

METRICS = [
    "PROBE(alpha=1,beta=0)",
    "PROBE(alpha=0,beta=0)",
    "PROBE(alpha=1,beta=0.8)",
    "APROBE(alpha=1,beta=0)",
    "MRR",
    "Hits@10",
    "AMRI",
]


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the rank files.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Another seed is another family.")] = 0,
) -> None:
    """Make the family-tree graph, rank its test facts by two baselines, evaluate them."""
    from kgprobe.aggregate import surface
    from kgprobe.cli.surface import matrix
    from kgprobe.graph import statistics
    from kgprobe.graph.family_tree import family_tree
    from kgprobe.metrics import evaluate
    from kgprobe.predict import rank

    note("1. A graph: families grown from rules, with all facts that follow")
    graph = family_tree(seed=seed)
    shown = ("graph", "entities", "relations", "train", "valid", "test")
    print_rows([{key: value for key, value in statistics(graph).items() if key in shown}], Format.table)

    note("2. Prediction: every test fact ranked against all entities, by two baselines")
    tables = {}
    for baseline in ("relation-frequency", "entity-frequency"):
        path = output / f"{baseline}.parquet"
        tables[path] = rank(baseline, graph)
        tables[path].write(path)
        note(f"   wrote {path}")

    note("3. Evaluation: every perspective from the same rank files")
    values = {str(ranks.info.model): evaluate(ranks, METRICS) for ranks in tables.values()}
    print_rows([{"metric": m} | {model: value[m] for model, value in values.items()} for m in METRICS], Format.table)

    note("4. The whole surface: sharpness alpha down, popularity-bias robustness beta across")
    alphas, betas = [1.0, 0.5, 0.0, -0.5, -1.0], [0.0, 0.2, 0.4, 0.6, 0.8]
    for ranks in tables.values():
        print_rows(matrix(ranks.info.model, alphas, betas, surface(ranks, alphas, betas)), Format.table)
    first = next(iter(tables))
    note(f"Next: kgprobe eval {first} --by relation --metric MRR --graph family-tree")
