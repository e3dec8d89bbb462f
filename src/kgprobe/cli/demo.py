"""``kgprobe demo``: the main job on the built-in graph."""

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

"""The perspectives that select: all queries count the same, and those with unpopular answers count most."""

METRICS = [
    "PROBE(alpha=1,beta=0)",
    "PROBE(alpha=0,beta=0)",
    "PROBE(alpha=1,beta=0.8)",
    "APROBE(alpha=1,beta=0)",
    "MRR",
    "Hits@10",
    "AMRI",
]

COMPARED = ["PROBE(alpha=1,beta=0)", "PROBE(alpha=0,beta=0)", "PROBE(alpha=1,beta=0.8)", "MRR", "Hits@10"]


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for all that it makes.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Another seed is another family.")] = 0,
    trees: Annotated[int, typer.Option(metavar="N", help="Families in the graph; fewer are quicker.")] = 20,
    threads: Annotated[int | None, typer.Option(metavar="N", help="Threads on the CPU.", show_default="all")] = None,
) -> None:
    """Make the family-tree graph, train two models on it, rank its test facts, evaluate, compare, and write a report.

    What an earlier demo has left in the folder is replaced.
    """
    from kgprobe.aggregate import surface
    from kgprobe.cli.surface import matrix
    from kgprobe.report.comparison_report import compare

    folder = output / "family-tree"
    graph = _make_graph(folder, trees, seed)
    note("2. Training: one run a model keeps the best checkpoint of each perspective, and ranks every test fact")
    selected = {name: _train(key, folder, output / key, threads) for name, key in MODELS.items()}
    note("3. What each choice of perspective wins and loses, on the test facts")
    print_rows([row for name, tables in selected.items() for row in _choices(name, tables)], Format.table)
    print()
    tables = {BASELINE: _baseline(folder, output, threads)} | {name: own[TARGETS[0]] for name, own in selected.items()}

    note("4. Evaluation: every perspective from the same rank files")
    for rows in (_values(tables), _groups(tables, graph, "side"), _groups(tables, graph, "relation")):
        print_rows(rows, Format.table)
        print()

    note("5. The whole surface: sharpness alpha down, popularity-bias robustness beta across")
    alphas, betas = [1.0, 0.5, 0.0, -0.5, -1.0], [0.0, 0.2, 0.4, 0.6, 0.8]
    for name, ranks in tables.items():
        print_rows(matrix(name, alphas, betas, surface(ranks, alphas, betas)), Format.table)
        print()

    note("6. Comparison: which differences are beyond noise, and may the files be compared at all?")
    report = compare(tables, COMPARED, graph=graph)
    print(report)
    for finding in report.findings:
        note(f"   audit: {', '.join(finding.models)}: {finding.message}")
    files = " ".join(str(output / key / "ranks.parquet") for key in MODELS.values())
    note(f"Next: kgprobe decide {files} --alpha 1 --beta 0.8")
    note("7. The report: open it in a browser, and move alpha and beta")
    report.write(output / "report.html")
    print(output / "report.html")


def _make_graph(folder: Path, trees: int, seed: int) -> KnowledgeGraph:
    from kgprobe.graph import statistics, write_graph
    from kgprobe.graph.family_tree import family_tree

    note("1. A graph: families grown from rules, with all facts that follow")
    graph = family_tree(trees=trees, seed=seed)
    write_graph(graph, folder)
    shown = ("graph", "entities", "relations", "train", "valid", "test")
    print_rows([{key: value for key, value in statistics(graph).items() if key in shown}], Format.table)
    return graph


def _train(model: str, graph: Path, run: Path, threads: int | None) -> dict[str, Ranks]:
    """The test ranks of the best checkpoint by every target."""
    from kgprobe.ranks import read_ranks
    from kgprobe.train.run_directory import ranks_path

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
    """The test scores by every target of the checkpoints that each of them chose."""
    from kgprobe.metrics import evaluate

    return [
        {"model": model, "selected by": target, "epoch": _epoch(ranks)} | evaluate(ranks, TARGETS)
        for target, ranks in tables.items()
    ]


def _epoch(ranks: Ranks) -> int:
    from kgprobe.train.fitting import CHECKPOINTS

    epoch: int = ranks.info.settings[CHECKPOINTS][0]["epoch"]
    return epoch


def _values(tables: Mapping[str, Ranks]) -> list[Record]:
    from kgprobe.metrics import evaluate

    values = {model: evaluate(ranks, METRICS) for model, ranks in tables.items()}
    return [{"metric": metric} | {model: value[metric] for model, value in values.items()} for metric in METRICS]


def _groups(tables: Mapping[str, Ranks], graph: KnowledgeGraph, by: str) -> list[Record]:
    """MRR of every model in every group."""
    from kgprobe.metrics import scores

    rows: dict[str, dict[str, Any]] = {}
    for model, ranks in tables.items():
        for score in scores(ranks, "MRR", by=[by]):
            group = score.group[by]
            name = graph.relation_label([group])[0] if by == "relation" else str(group)
            rows.setdefault(name, {f"MRR by {by}": name, "queries": score.queries})[model] = score.value
    return list(rows.values())
