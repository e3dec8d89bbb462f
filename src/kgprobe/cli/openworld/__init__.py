"""Commands about missing facts: ``kgprobe openworld ...``."""

from __future__ import annotations

import typer

from kgprobe.cli.openworld.bench import bench
from kgprobe.cli.openworld.estimate import estimate
from kgprobe.cli.openworld.evaluate import evaluate
from kgprobe.cli.openworld.lemma import lemma
from kgprobe.cli.openworld.sensitivity import sensitivity
from kgprobe.cli.openworld.split import split

app = typer.Typer(no_args_is_help=True)


@app.callback()
def openworld() -> None:
    """Find out what missing facts do to scores and comparisons."""


app.command()(sensitivity)
app.command()(estimate)
app.command()(bench)
app.command()(split)
app.command()(evaluate)
app.command()(lemma)
