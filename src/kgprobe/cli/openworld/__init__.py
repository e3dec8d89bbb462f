"""Commands about missing facts: ``kgprobe openworld ...``."""

from __future__ import annotations

import typer

from kgprobe.cli.openworld import bench, estimate, evaluate, lemma, sensitivity, split

app = typer.Typer(no_args_is_help=True)


@app.callback()
def openworld() -> None:
    """Find out what missing facts do to scores and comparisons."""


app.command()(sensitivity.sensitivity)

app.command()(estimate.estimate)

app.command()(bench.bench)

app.command()(split.split)

app.command()(evaluate.evaluate)

app.command()(lemma.lemma)
