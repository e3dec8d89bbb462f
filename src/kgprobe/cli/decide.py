"""``kgprobe decide``: which model is best at one (alpha, beta), or over a grid of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Annotated

import typer

from kgprobe.aggregate.weighted_mean import Tie
from kgprobe.cli import console
from kgprobe.errors import one_line
from kgprobe.report.grid import Record

if TYPE_CHECKING:
    from kgprobe.decision import Decision, DecisionMap

_REPLICATES, _REPLICATES_OF_MAP = 10_000, 2_000


def decide(
    ranks: console.RanksArgument,
    alpha: Annotated[
        str, typer.Option(help="Sharpness: a number, numbers separated by commas, or start:stop:step.")
    ] = "1:-1:-0.5",
    beta: Annotated[str, typer.Option(help="Popularity-bias robustness, in the same notation.")] = "0:0.8:0.2",
    graph: console.GraphOption = None,
    level: Annotated[float, typer.Option(help="Confidence level of intervals, tests and bands.")] = 0.95,
    cluster: console.ClusterOption = console.Cluster.triple,
    seeds: console.SeedsOption = None,
    common: console.CommonOption = False,
    exclude_flagged: console.ExcludeFlaggedOption = False,
    allow_different_candidates: console.DifferentCandidatesOption = False,
    at: console.AtOption = None,
    replicates: Annotated[
        int | None,
        typer.Option(
            max=console.MOST_DRAWS,
            help="Bootstrap draws, and permutations.",
            show_default=f"{_REPLICATES:,}, for a map {_REPLICATES_OF_MAP:,}",
        ),
    ] = None,
    tie: console.TieOption = Tie.mean,
    seed: console.DrawOption = 0,
    format: console.FormatOption = console.Format.table,  # noqa: A002
) -> None:
    """Choose a model for one alpha and beta, or for each point of an (alpha, beta) grid (by default the paper's).

    A high alpha rewards sharp predictions, where only the top of the ranking counts; a high beta gives more weight to
    rare entities and relations. Models without a significant difference are named together.
    """
    from kgprobe.audit import audited
    from kgprobe.comparison.model_comparison import draws_of
    from kgprobe.comparison.results import remarks
    from kgprobe.decision import decide as decide_at
    from kgprobe.decision import decision_map
    from kgprobe.metrics import PROBE

    alphas, betas = console.parse_axis("alpha", alpha), console.parse_axis("beta", beta)
    knowledge = console.load(graph)
    tables, _ = console.read_models(ranks, knowledge)
    lineup = audited(
        tables, graph=knowledge, common=common, exclude_flagged=exclude_flagged, at=at, unknown=at is None
    ).lineup
    allowed = allow_different_candidates
    limits = remarks(lineup, seeds or lineup.usual_seeds, [PROBE()], allow_different_candidates=allowed)
    if len(alphas) == len(betas) == 1:
        draws = _REPLICATES if replicates is None else replicates
        with console.counting("deciding", draws_of(lineup, 1, 1, 2 * draws), "draws") as progress:
            decision = decide_at(
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
                allow_different_candidates=allowed,
                progress=progress,
            )
        _print_decision(decision, format)
    else:
        draws = _REPLICATES_OF_MAP if replicates is None else replicates
        plane = decision_map(
            lineup,
            alphas,
            betas,
            cluster=cluster,
            level=level,
            seeds=seeds,
            tie=tie,
            replicates=draws,
            seed=seed,
            allow_different_candidates=allowed,
        )
        _print_map(plane, format)
    for remark in limits:
        console.note(remark)
    console.audit_hints(lineup, allowed)


def _print_decision(decision: Decision, format: console.Format) -> None:  # noqa: A002
    rows = [{**row, "alpha": console.axis_value(row["alpha"])} for row in decision.to_rows()]
    _answer(str(decision), format)
    console.print_rows(rows if format.is_data else _shortened(rows), format)


def _answer(sentences: str, format: console.Format) -> None:  # noqa: A002
    """Print the answer above a table, apart from other formats."""
    if format is console.Format.table:
        print(one_line(sentences), end="\n\n")
    else:
        console.note(sentences)


def _shortened(rows: Sequence[Record]) -> list[Record]:
    """Rows without alpha and beta, which the decision names, and without columns that hold the default everywhere."""
    hidden = {
        "alpha": True,
        "beta": True,
        "holm": True,
        "reason": True,
        "least": all(row["least"] == row["most"] for row in rows),
        "most": all(row["least"] == row["most"] for row in rows),
        "lead_least": all(row["lead_least"] == row["lead_most"] for row in rows),
        "lead_most": all(row["lead_least"] == row["lead_most"] for row in rows),
        "std": all(row["std"] is None for row in rows),
        "seeds": all(row["seeds"] == 1 for row in rows),
        "queries": all(row["queries"] == round(row["effective"]) for row in rows),
        "trusted": all(row["trusted"] for row in rows),
        "tested": all(row["tested"] for row in rows),
        "flagged": not any(row["flagged"] for row in rows),
        "objections": True,
    }
    return _for_people([{**row, "effective": round(row["effective"])} for row in console.without(rows, hidden)])


def _for_people(rows: Sequence[Record]) -> list[Record]:
    """Rows with headings in the words of the documentation; the keys of JSON and CSV stay as they are."""
    headings = {
        "within_noise": "may_be_best",
        "wins_beyond_noise": "significant_wins",
        "pareto_within_noise": "may_be_pareto",
    }
    return [{headings.get(key, key): value for key, value in row.items()} for row in rows]


def _print_map(plane: DecisionMap, format: console.Format) -> None:  # noqa: A002
    models, crossings = _models(plane), list(_crossings(plane))
    _answer(str(plane), format)
    if format.is_data:
        records: dict[str, Sequence[Record]] = {"point": plane.to_rows(), "model": models, "crossing": crossings}
        console.print_rows([{"record": record, **row} for record, rows in records.items() for row in rows], format)
        return
    console.print_rows(_places(plane), format)
    print()
    hidden = {"flagged": not plane.lineup.flagged, "objections": True}
    console.print_rows(_for_people(console.without(models, hidden)), format)
    if crossings:
        print()
        console.print_rows(_across(crossings), format)
    _explain(plane)


def _places(plane: DecisionMap) -> list[Record]:
    """The score and place of each model, one row per alpha and model, one column per beta; in brackets its range."""
    places, (best, worst) = plane.places(), plane.place_ranges()

    def cell(*at: int) -> str:
        place = str(places[at]) if best[at] == worst[at] else f"{places[at]} [{best[at]}-{worst[at]}]"
        return f"{plane.scores[at]:.4f}  {place}"

    return [
        {"alpha": f"{alpha:g}", "model": f"{model} *" if model in plane.lineup.flagged else model}
        | {f"beta={beta:g}": cell(m, i, j) for j, beta in enumerate(plane.betas.tolist())}
        for i, alpha in enumerate(plane.alphas.tolist())
        for m, model in enumerate(plane.models)
    ]


def _models(plane: DecisionMap) -> list[Record]:
    from kgprobe.comparison.lineup import flag_columns

    won, significantly = plane.share(), plane.share(beyond_noise=True)
    best, possible = plane.pareto(), plane.pareto(beyond_noise=True)
    return [
        {
            "model": model,
            "wins": won[model],
            "wins_beyond_noise": significantly[model],
            "pareto": model in best,
            "pareto_within_noise": model in possible,
            **flag_columns(plane.lineup.flags.get(model)),
        }
        for model in plane.models
    ]


def _crossings(plane: DecisionMap) -> Iterator[Record]:
    """Points at which two winning models have equal scores: alphas for each beta, or betas of a single alpha."""
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
    """The crossings with one row per pair of models and one column per beta."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for crossing in crossings:
        row = rows.setdefault((crossing["first"], crossing["second"]), {})
        beta = f"beta={crossing['beta']:.4g}"
        row[beta] = ", ".join(filter(None, [row.get(beta), f"alpha={crossing['alpha']:.3f}"]))
    return [{"equal": f"{first} = {second}"} | row for (first, second), row in rows.items()]


def _explain(plane: DecisionMap) -> None:
    if len(plane.models) == 1:
        return
    sampled = {"random": "queries and training runs", "fixed": "queries"}[plane.settings.seeds]
    console.note(
        f"Places in [brackets] are not statistically distinguishable at the {100 * plane.settings.level:g} % level "
        f"(sampling of {sampled}, all places simultaneously)."
    )
    for beta, effective, trusted in zip(plane.betas, plane.effective.min(axis=0), plane.trusted, strict=True):
        if not trusted:
            console.note(
                f"beta {beta:g}: the effective sample size of {effective:,.0f} queries is too small for a test."
            )
