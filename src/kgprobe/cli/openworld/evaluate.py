"""``kgprobe openworld evaluate``: rank models with and without the missing facts of a world."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kgprobe.cli.console import Format, counting, note, print_rows
from kgprobe.cli.options import FormatOption, MetricOption
from kgprobe.errors import DataError
from kgprobe.files import require_writable
from kgprobe.report.grid import Record

if TYPE_CHECKING:
    from kgprobe.openworld.world import OpenWorld
    from kgprobe.openworld.world_ranks import RankedCheckpoint, RankPair
    from kgprobe.openworld.world_tasks import WorldTask


METRICS = ["MRR", "PROBE(alpha=0,beta=0)"]


class Ranked(StrEnum):
    """What is ranked."""

    tail = "tail"
    all = "all"


def evaluate(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL", help="Runs of kgprobe train, or whatever kgprobe rank takes.", show_default=False
        ),
    ],
    world: Annotated[
        str,
        typer.Option("--world", "-w", metavar="WORLD", help="Folder of kgprobe openworld split.", show_default=False),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the rank files.", show_default=False)
    ],
    task: Annotated[
        Ranked, typer.Option(help="Tail queries with many answers, or all hard facts on both sides.")
    ] = Ranked.tail,
    queries: Annotated[int, typer.Option(metavar="N", help="Tail queries that are drawn, at most.")] = 500,
    least: Annotated[int, typer.Option(metavar="N", help="Hard answers that a tail query must have.")] = 10,
    facts: Annotated[int, typer.Option(metavar="N", help="With --task all: facts that are drawn; 0 for all.")] = 0,
    seed: Annotated[int, typer.Option(metavar="N", help="Another seed draws other queries or facts.")] = 0,
    correlated: Annotated[
        bool, typer.Option("--correlated", help="Published worlds: what a model ranked lowest is missing.")
    ] = False,
    metric: MetricOption = None,
    device: Annotated[
        str, typer.Option("--device", metavar="DEVICE", help="cpu, or a device of torch such as cuda.")
    ] = "cpu",
    threads: Annotated[int | None, typer.Option(metavar="N", help="Threads on the CPU.", show_default="all")] = None,
    memory: Annotated[str, typer.Option(metavar="SIZE", help="Working memory beside vectors and filter.")] = "1GB",
    force: Annotated[bool, typer.Option("--force", help="Rank everything again, whatever is there.")] = False,
    format: FormatOption = Format.table,  # noqa: A002
) -> None:
    """Rank models in the open world, where missing facts count as false, and in the closed world.

    Known answers are ranked among all entities but those known to be true (open), and known and missing answers among
    those that are false (closed). FOLDER/MODEL/CHECKPOINT.open.parquet and .closed.parquet keep the ranks: every
    snapshot of a run that has some (kgprobe train --set snapshot_every=N), else one checkpoint called final. What is
    ranked already is kept, so that a run that was stopped goes on.
    """
    from kgprobe.metrics.catalogue import parse_all
    from kgprobe.openworld.world_files import read_world
    from kgprobe.openworld.world_ranks import RankPair, checkpoints_of
    from kgprobe.openworld.world_tasks import all_task, tail_task
    from kgprobe.resources import Resources, parse_memory

    names = [str(parsed) for parsed in parse_all(metric or METRICS)]
    resources = Resources(device, threads, parse_memory(memory))
    checkpoints = checkpoints_of(models, output)
    require_writable(output / "ranks")
    opened = read_world(world, correlated)
    chosen = tail_task(opened, queries, least, seed=seed) if task is Ranked.tail else all_task(opened, facts, seed)
    ranked = set() if force else _ranked_already(checkpoints, opened, chosen)
    if ranked:
        note(f"{len(ranked)} of {len(checkpoints)} checkpoints are ranked already")
    total = chosen.ranked * sum(len(found.runs) for found in checkpoints if found.path not in ranked)
    rows: list[Record] = []
    with counting("ranking", total, "queries") as progress:
        for found in checkpoints:
            kept = found.path in ranked
            pair = RankPair.read(found.folder, found.name) if kept else found.rank(opened, chosen, resources, progress)
            rows.append(_row(found, pair, names))
    print_rows(rows, format)
    note(f"wrote {output}; next: kgprobe openworld bench {output}")


def _ranked_already(checkpoints: Sequence[RankedCheckpoint], world: OpenWorld, task: WorldTask) -> set[Path]:
    """Where the ranks are that need not be made again, once it is clear that none would be lost."""
    ranked, problems = set(), []
    for checkpoint in checkpoints:
        try:
            ranked |= {checkpoint.path} if checkpoint.is_ranked(world, task) else set()
        except DataError as error:
            problems += error.problems or [error.title]
    if problems:
        title = "the ranks of something else are in the way"
        raise DataError(title, problems, "choose another folder, or replace them with --force")
    return ranked


def _row(checkpoint: RankedCheckpoint, pair: RankPair, metrics: Sequence[str]) -> Record:
    from kgprobe.metrics import evaluate

    values = {world: evaluate(getattr(pair, world), metrics) for world in ("open", "closed")}
    scores = {f"{metric} {world}": values[world][metric] for metric in metrics for world in values}
    return {"model": checkpoint.model, "checkpoint": checkpoint.name} | scores
