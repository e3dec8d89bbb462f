"""``kgprobe demo``: train, rank, evaluate, compare and report on the built-in family-tree graph."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgprobe.cli.console import Format, note, print_rows
from kgprobe.cli.rank import rank
from kgprobe.cli.train import train
from kgprobe.report.grid import Record

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph
    from kgprobe.ranks import Ranks


MODELS = {"ComplEx": "complex", "TuckER": "tucker"}
BASELINE = "relation frequency"

TARGETS = ["PROBE(alpha=1,beta=0)", "PROBE(alpha=1,beta=0.8)"]
"""The selection metrics: equal weights for all queries, and large weights for those with unpopular targets."""

PROBES = ["PROBE(alpha=1,beta=0)", "PROBE(alpha=0,beta=0)", "PROBE(alpha=1,beta=0.8)"]
METRICS = [*PROBES, "APROBE(alpha=1,beta=0)", "MRR", "Hits@10", "AMRI"]
COMPARED = [*PROBES, "MRR", "Hits@10"]


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Directory of the results.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Seed of the generated graph.")] = 0,
    trees: Annotated[int, typer.Option(metavar="N", help="Families in the graph; fewer are faster.")] = 20,
    threads: Annotated[int | None, typer.Option(metavar="N", help="Threads on the CPU.", show_default="all")] = None,
) -> None:
    """Generate the family-tree graph, train two models, rank its test triples, evaluate, compare, and write a report.

    Results of an earlier demo in the directory are replaced.
    """
    from kgprobe.aggregate import surface
    from kgprobe.cli.surface import matrix
    from kgprobe.report.comparison_report import compare

    folder = output / "family-tree"
    graph = _make_graph(folder, trees, seed)
    note("2. Training: each model keeps its best checkpoint for each selection metric, and ranks the test triples")
    selected = {name: _train(key, folder, output / key, threads) for name, key in MODELS.items()}
    note("3. Test scores of the checkpoints, by selection metric")
    print_rows([row for name, tables in selected.items() for row in _choices(name, tables)], Format.table)
    print()
    tables = {BASELINE: _baseline(folder, output, threads)} | {name: own[TARGETS[0]] for name, own in selected.items()}

    note("4. Evaluation: all metrics from the same rank files")
    for rows in (_values(tables), _groups(tables, graph, "side"), _groups(tables, graph, "relation")):
        print_rows(rows, Format.table)
        print()

    note("5. The (alpha, beta) surface: sharpness alpha in rows, popularity-bias robustness beta in columns")
    alphas, betas = [1.0, 0.5, 0.0, -0.5, -1.0], [0.0, 0.2, 0.4, 0.6, 0.8]
    for name, ranks in tables.items():
        print_rows(matrix(name, alphas, betas, surface(ranks, alphas, betas)), Format.table)
        print()

    note("6. Comparison: which differences are statistically significant, and are the rank files comparable?")
    report = compare(tables, COMPARED, graph=graph)
    print(report)
    for finding in report.findings:
        note(f"   audit: {', '.join(finding.models)}: {finding.message}")
    files = " ".join(str(output / key / "ranks.parquet") for key in MODELS.values())
    note(f"Next: kgprobe decide {files} --alpha 1 --beta 0.8")
    note("7. The report: open it in a browser, and change alpha and beta")
    report.write(output / "report.html")
    print(output / "report.html")


def _make_graph(folder: Path, trees: int, seed: int) -> KnowledgeGraph:
    from kgprobe.graph import statistics
    from kgprobe.graph.family_tree import family_tree

    note("1. A graph: families generated from rules, with all triples that follow")
    graph = family_tree(trees=trees, seed=seed)
    graph.write(folder)
    shown = ("graph", "entities", "relations", "train", "valid", "test")
    print_rows([{key: value for key, value in statistics(graph).items() if key in shown}], Format.table)
    return graph


def _train(model: str, graph: Path, run: Path, threads: int | None) -> dict[str, Ranks]:
    """The test ranks of the best checkpoint for every selection metric."""
    from kgprobe.ranks import read_ranks
    from kgprobe.train.run_files import ranks_path

    targets = " ".join(f'--select "{target}"' for target in TARGETS)
    note(f"   kgprobe train {model} --graph {graph} {targets} -o {run}")
    train(model, os.fspath(graph), run, select=TARGETS, device="cpu", threads=threads, force=True)
    print()
    return {target: read_ranks(ranks_path(run, target, first=target == TARGETS[0])) for target in TARGETS}


def _baseline(graph: Path, output: Path, threads: int | None) -> Ranks:
    from kgprobe.ranks import read_ranks

    path = output / "relation-frequency.parquet"
    note(f"   and a baseline: kgprobe rank relation-frequency --graph {graph} -o {path}")
    rank("relation-frequency", os.fspath(graph), path, threads=threads, name=BASELINE)
    return read_ranks(path)


def _choices(model: str, tables: Mapping[str, Ranks]) -> list[Record]:
    """Test scores of the checkpoints that each selection metric selected."""
    from kgprobe.metrics import evaluate

    return [
        {"model": model, "selected by": target, "epoch": ranks.info.training.checkpoints[0].epoch}
        | evaluate(ranks, TARGETS)
        for target, ranks in tables.items()
        if ranks.info.training is not None
    ]


def _values(tables: Mapping[str, Ranks]) -> list[Record]:
    from kgprobe.metrics import evaluate

    values = {model: evaluate(ranks, METRICS) for model, ranks in tables.items()}
    return [{"metric": metric} | {model: value[metric] for model, value in values.items()} for metric in METRICS]


def _groups(tables: Mapping[str, Ranks], graph: KnowledgeGraph, by: str) -> list[Record]:
    from kgprobe.metrics import scores

    rows: dict[str, dict[str, Any]] = {}
    for model, ranks in tables.items():
        for score in scores(ranks, "MRR", by=[by]):
            group = score.group[by]
            name = graph.relation_label([group])[0] if by == "relation" else str(group)
            rows.setdefault(name, {f"MRR by {by}": name, "queries": score.queries})[model] = score.value
    return list(rows.values())
