"""``kgprobe openworld``: the effect of missing triples on scores and comparisons."""

from __future__ import annotations

import typer

from kgprobe.cli.openworld import bench, estimate, evaluate, lemma, sensitivity, split

app = typer.Typer(no_args_is_help=True)


@app.callback()
def openworld() -> None:
    """Measure the effect of missing triples on scores and comparisons."""


for _command in (sensitivity.sensitivity, estimate.estimate, bench.bench, split.split, evaluate.evaluate, lemma.lemma):
    app.command()(_command)
