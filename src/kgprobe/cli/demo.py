"""``kgprobe demo``: the main job on the built-in graph."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgprobe.cli.output import Format, Row, note, print_rows
from kgprobe.cli.rank import rank

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph
    from kgprobe.ranks import Ranks

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
) -> None:
    """Make the family-tree graph, fit two models, rank its test facts, evaluate, compare, and write a report."""
    from kgprobe.aggregate import surface
    from kgprobe.cli.surface import matrix
    from kgprobe.ranks import read_ranks
    from kgprobe.report.report import compare

    graph = _make_graph(output / "graph", seed)
    models = _fit_models(graph, output)
    note("3. Prediction: every test fact ranked against all entities")
    tables: dict[str, Ranks] = {}
    for name, model in models.items():
        path = output / f"{Path(model).stem}.parquet"
        note(f"   kgprobe rank {model} --graph {output / 'graph'} -o {path}")
        rank(str(model), str(output / "graph"), path, name=name)
        tables[name] = read_ranks(path)

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
    note(f"Next: kgprobe decide {output}/*.parquet --alpha 1 --beta 0.8")
    note("7. The report: open it in a browser, and move alpha and beta")
    report.write(output / "report.html")
    print(output / "report.html")


def _make_graph(folder: Path, seed: int) -> KnowledgeGraph:
    from kgprobe.graph import statistics, write_graph
    from kgprobe.graph.family_tree import family_tree

    note("1. A graph: families grown from rules, with all facts that follow")
    graph = family_tree(seed=seed)
    write_graph(graph, folder)
    shown = ("graph", "entities", "relations", "train", "valid", "test")
    print_rows([{key: value for key, value in statistics(graph).items() if key in shown}], Format.table)
    return graph


def _fit_models(graph: KnowledgeGraph, output: Path) -> Mapping[str, Path | str]:
    """Two models in files, and a baseline that needs none."""
    from kgprobe.models.least_squares import fit_cp, fit_rescal
    from kgprobe.predict.sources.embeddings import write_embeddings

    note("2. Models: two factorisations of the training facts by least squares")
    models: dict[str, Path | str] = {"relation frequency": "relation-frequency"}
    for fit in (fit_rescal, fit_cp):
        start = time.monotonic()
        model = fit(graph)
        models[model.name] = path = output / f"{model.name}.safetensors"
        write_embeddings(path, *model.to_arrays())
        note(f"   wrote {path} after {time.monotonic() - start:.1f} s")
    return models


def _values(tables: Mapping[str, Ranks]) -> list[Row]:
    from kgprobe.metrics import evaluate

    values = {model: evaluate(ranks, METRICS) for model, ranks in tables.items()}
    return [{"metric": metric} | {model: value[metric] for model, value in values.items()} for metric in METRICS]


def _groups(tables: Mapping[str, Ranks], graph: KnowledgeGraph, by: str) -> list[Row]:
    """MRR of every model in every group."""
    from kgprobe.metrics import scores

    rows: dict[str, dict[str, Any]] = {}
    for model, ranks in tables.items():
        for score in scores(ranks, "MRR", by=[by]):
            group = score.group[by]
            name = graph.relation_label([group])[0] if by == "relation" else str(group)
            rows.setdefault(name, {f"MRR by {by}": name, "queries": score.queries})[model] = score.value
    return list(rows.values())
