"""``kgprobe decide``: which model to pick, from one perspective or over all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Annotated

import typer

from kgprobe.aggregate.weighted_mean import Tie
from kgprobe.cli.console import Format, counting, note, print_rows
from kgprobe.cli.options import (
    Cluster,
    ClusterOption,
    CommonOption,
    DrawOption,
    FormatOption,
    GraphOption,
    RanksArgument,
    SeedsOption,
    TieOption,
    load,
    read_models,
)
from kgprobe.cli.surface import parse_axis
from kgprobe.report.grid import Record

if TYPE_CHECKING:
    from kgprobe.decision import Decision, DecisionMap


_REPLICATES, _REPLICATES_OF_MAP = 10_000, 2_000

_DATA = (Format.json, Format.csv)


def decide(
    ranks: RanksArgument,
    alpha: Annotated[
        str, typer.Option(help="Sharpness: a number, numbers separated by commas, or start:stop:step.")
    ] = "1:-1:-0.5",
    beta: Annotated[str, typer.Option(help="Popularity-bias robustness, written likewise.")] = "0:0.8:0.2",
    graph: GraphOption = None,
    level: Annotated[float, typer.Option(help="Confidence of intervals, tests and bands.")] = 0.95,
    cluster: ClusterOption = Cluster.triple,
    seeds: SeedsOption = None,
    common: CommonOption = False,
    replicates: Annotated[
        int | None,
        typer.Option(
            help="How often queries are drawn again, and models swapped.",
            show_default=f"{_REPLICATES:,}, for a map {_REPLICATES_OF_MAP:,}",
        ),
    ] = None,
    tie: TieOption = Tie.mean,
    seed: DrawOption = 0,
    format: FormatOption = Format.table,  # noqa: A002
) -> None:
    """Say which model to pick: for one alpha and beta, or over a map of many (by default the paper's).

    High alpha asks for sharp predictions, where only the top of a ranking counts; high beta for rare entities and
    relations. Models whose lead is within noise are named together.
    """
    from kgprobe.comparison.lineup import line_up
    from kgprobe.comparison.results import remarks
    from kgprobe.decision import decide as decide_at
    from kgprobe.decision import decision_map

    alphas, betas = parse_axis("alpha", alpha), parse_axis("beta", beta)
    knowledge = load(graph)
    lineup = line_up(read_models(ranks), graph=knowledge, common=common)
    if len(alphas) == len(betas) == 1:
        draws = _REPLICATES if replicates is None else replicates
        with counting("deciding", 2 * draws, "draws") as progress:
            found = decide_at(
                lineup,
                alphas[0],
                betas[0],
                cluster=cluster,
                level=level,
                seeds=seeds,
                tie=tie,
                replicates=draws,
                permutations=draws,
                seed=seed,
                progress=progress,
            )
        _print_decision(found, format)
    else:
        draws = _REPLICATES_OF_MAP if replicates is None else replicates
        plane = decision_map(
            lineup, alphas, betas, cluster=cluster, level=level, seeds=seeds, tie=tie, replicates=draws, seed=seed
        )
        _print_map(plane, format)
    for remark in remarks(lineup, seeds or lineup.usual_seeds):
        note(remark)


def _print_decision(decision: Decision, format: Format) -> None:  # noqa: A002
    rows = decision.to_rows()
    if format is Format.table:
        print(f"{decision}\n")
    else:
        note(str(decision))
    print_rows(rows if format in _DATA else _for_people(rows), format)


def _for_people(rows: Sequence[Record]) -> list[Record]:
    """Without the perspective, which is said in the answer, and without what is the same everywhere and known."""
    uninteresting = {
        "alpha": True,
        "beta": True,
        "std": all(row["std"] is None for row in rows),
        "seeds": all(row["seeds"] == 1 for row in rows),
        "queries": all(row["queries"] == round(row["effective"]) for row in rows),
        "trusted": all(row["trusted"] for row in rows),
    }
    kept = [{key: value for key, value in row.items() if not uninteresting.get(key, False)} for row in rows]
    return [row | {"effective": round(row["effective"])} for row in kept]


def _print_map(plane: DecisionMap, format: Format) -> None:  # noqa: A002
    models, crossings = _models(plane), list(_crossings(plane))
    if format in _DATA:
        records: dict[str, Sequence[Record]] = {"point": plane.to_rows(), "model": models, "crossing": crossings}
        print_rows([{"record": record, **row} for record, rows in records.items() for row in rows], format)
        return
    print_rows(_places(plane), format)
    print()
    print_rows(models, format)
    if crossings:
        print()
        print_rows(_across(crossings), format)
    _explain(plane)


def _places(plane: DecisionMap) -> list[Record]:
    """The place of every model, alpha and model down, beta across; in brackets the places that noise leaves open."""
    places, (best, worst) = plane.places(), plane.place_ranges()

    def cell(*at: int) -> str:
        sure = best[at] == worst[at]
        return str(places[at]) if sure else f"{places[at]} ({best[at]}-{worst[at]})"

    return [
        {"alpha": f"{alpha:g}", "model": model}
        | {f"beta={beta:g}": cell(m, i, j) for j, beta in enumerate(plane.betas.tolist())}
        for i, alpha in enumerate(plane.alphas.tolist())
        for m, model in enumerate(plane.models)
    ]


def _models(plane: DecisionMap) -> list[Record]:
    won, surely = plane.share(), plane.share(beyond_noise=True)
    best, possible = plane.pareto(), plane.pareto(beyond_noise=True)
    return [
        {
            "model": model,
            "wins": won[model],
            "wins_beyond_noise": surely[model],
            "pareto": model in best,
            "pareto_within_noise": model in possible,
        }
        for model in plane.models
    ]


def _crossings(plane: DecisionMap) -> Iterator[Record]:
    """Where models that win somewhere change their order: along alpha for every beta, or along beta alone."""
    winners = [model for model, share in plane.share().items() if share > 0]
    for first, second in combinations(winners, 2):
        if len(plane.alphas) > 1:
            for beta in plane.betas.tolist():
                for alpha in plane.crossing_alphas(first, second, beta).tolist():
                    yield {"first": first, "second": second, "beta": beta, "alpha": alpha}
        else:
            for beta in plane.crossing_betas(first, second, plane.alphas.item()).tolist():
                yield {"first": first, "second": second, "beta": beta, "alpha": plane.alphas.item()}


def _across(crossings: list[Record]) -> list[Record]:
    """The same, one row for each pair of models, beta across, and every alpha at which they are equal."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for crossing in crossings:
        row = rows.setdefault((crossing["first"], crossing["second"]), {})
        beta = f"beta={crossing['beta']:.4g}"
        row[beta] = ", ".join(filter(None, [row.get(beta), f"alpha={crossing['alpha']:.3f}"]))
    return [{"equal": f"{first} = {second}"} | row for (first, second), row in rows.items()]


def _explain(plane: DecisionMap) -> None:
    if len(plane.models) == 1:
        note("there is one model only, so there is nothing to decide")
        return
    runs = {"random": "queries and training runs", "fixed": "queries"}[plane.settings["seeds"]]
    note(
        f"a place alone is beyond noise; brackets hold those that the choice of {runs} leaves open, "
        f"at {100 * plane.settings['level']:g} % for all places together"
    )
    for beta, effective, trusted in zip(plane.betas, plane.effective.min(axis=0), plane.trusted, strict=True):
        if not trusted:
            note(f"beta {beta:g} rests on {effective:,.0f} effective queries: too few to tell noise from more")
