"""``kgprobe figure``: figures for print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kgprobe.cli.console import (
    AtOption,
    CommonOption,
    GraphOption,
    NamesOption,
    each_file,
    graph_inputs,
    load,
    note,
    parse_axis,
    read_file,
)
from kgprobe.errors import KgprobeError, UsageError, nearest
from kgprobe.files import refuse_overwriting, require_writable
from kgprobe.report.figures import ENDINGS, FIGURES, FigureKind, Inputs, Offer, figure_type, find_figure, save

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph
    from kgprobe.ranks import End, RankFile

EVERY = "all"
_NAMES = ", ".join([*FIGURES, EVERY])


def figure(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"One of {_NAMES}.")],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", help=f"File to write (.{', .'.join(ENDINGS)}), or folder for 'all'."
        ),
    ],
    ranks: Annotated[list[Path] | None, typer.Argument(metavar="RANKS", help="Rank files (Parquet).")] = None,
    graph: GraphOption = None,
    names: NamesOption = None,
    alpha: Annotated[
        str | None, typer.Option(help="Sharpness: start:stop:step, or numbers separated by commas.")
    ] = None,
    beta: Annotated[str | None, typer.Option(help="Popularity-bias robustness, in the same notation.")] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", "-m", help="Metric of the figure popularity-groups.")
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option(help="Models to draw, in this order, comma-separated; figures of two models use the first two."),
    ] = None,
    common: CommonOption = False,
    at: AtOption = None,
    type_: Annotated[str, typer.Option("--type", metavar="TYPE", help="File type that 'all' writes.")] = "pdf",
) -> None:
    """Draw a figure, or with 'all' every figure that the given files allow."""
    from kgprobe.metrics import parse

    kinds = list(FIGURES.values()) if name == EVERY else [find_figure(name)]
    paths = {kind.name: output / f"{kind.name}.{type_}" if name == EVERY else output for kind in kinds}
    for path in paths.values():
        figure_type(path)
    refuse_overwriting(paths.values(), [*(ranks or []), *graph_inputs(graph, names)])
    if metric is not None:
        parse(metric)
    files = _chosen(ranks or [], models or [])
    offer = Offer(
        models=tuple(files),
        popularity=graph is not None or (bool(files) and all(map(_holds_popularity, files.values()))),
        graph=graph is not None,
        alphas=None if alpha is None else tuple(parse_axis("alpha", alpha)),
        betas=None if beta is None else tuple(parse_axis("beta", beta)),
        metric=metric,
    )
    if name != EVERY:
        _refuse_unused(kinds[0], {"alpha": alpha, "beta": beta, "metric": metric})
        if missing := kinds[0].missing(offer):
            raise UsageError(f"the figure '{name}' needs more input", missing)
    drawable = [kind for kind in kinds if not kind.missing(offer)]
    for kind in drawable:
        require_writable(paths[kind.name])
    inputs = _read(files, load(graph, names), offer, common, at)
    skipped = {kind.name: f"needs {'; '.join(kind.missing(offer))}" for kind in kinds if kind not in drawable}
    for kind in drawable:
        try:
            drawn = kind.draw(inputs)
        except KgprobeError as error:
            if name != EVERY:
                raise
            skipped[kind.name] = "; ".join([error.title, *error.problems])
            continue
        save(drawn, paths[kind.name])
        note(f"wrote {paths[kind.name]}{_shown(kind, offer)}")
    for skipped_name, reason in skipped.items():
        note(f"skipped {skipped_name}: {reason}".replace("`graph`", "--graph"))


def _chosen(paths: Sequence[Path], models: Sequence[str]) -> dict[str, RankFile]:
    """The rank files of the chosen models, by name."""
    from kgprobe.comparison import named_files
    from kgprobe.ranks import RankFile

    files = named_files([RankFile(path) for path in paths])
    chosen = [name for text in models for name in ([text] if text in files else text.split(","))]
    if unknown := [name for name in chosen if name not in files]:
        raise UsageError(
            "--models names models that have no rank file", [f"'{name}'{nearest(name, files)}" for name in unknown]
        )
    return {name: files[name] for name in chosen} if chosen else files


def _holds_popularity(file: RankFile) -> bool:
    return {"entity_popularity", "relation_popularity"} <= set(file.column_names)


def _refuse_unused(kind: FigureKind, given: Mapping[str, str | None]) -> None:
    if unused := [f"--{option}" for option, text in given.items() if text is not None and option not in kind.options]:
        used = ", ".join(f"--{option}" for option in kind.options) or "none of them"
        raise UsageError(f"{', '.join(unused)}: no option of the figure '{kind.name}'", remedy=f"it takes {used}")


def _read(
    files: Mapping[str, RankFile], graph: KnowledgeGraph | None, offer: Offer, common: bool, at: End | None
) -> Inputs:
    from kgprobe.comparison import line_up

    by_path = {file.path: file for file in files.values()}
    read = dict(each_file(list(by_path), lambda path: read_file(by_path[path], graph)))
    tables = {name: read[file.path] for name, file in files.items()}
    return Inputs(offer, line_up(tables, graph=graph, common=common, at=at) if tables else None, graph)


def _shown(kind: FigureKind, offer: Offer) -> str:
    """Which two of several models a figure shows."""
    if not kind.pair or len(offer.models) <= 2:
        return ""
    first, second, *_ = offer.models
    return f": {first} and {second}, the first of {len(offer.models)} models; --models chooses others"
