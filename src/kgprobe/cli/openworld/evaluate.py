"""``kgprobe openworld evaluate``: rank models with and without the missing triples of a world."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kgprobe.cli.console import Format, FormatOption, MetricOption, counting, graph_inputs, note, print_rows
from kgprobe.errors import DataError
from kgprobe.files import refuse_overwriting, require_writable
from kgprobe.report.grid import Record

if TYPE_CHECKING:
    from kgprobe.openworld.world import OpenWorld
    from kgprobe.openworld.world_ranks import RankedCheckpoint, RankPair
    from kgprobe.openworld.world_tasks import WorldTask

METRICS = ["MRR", "PROBE(alpha=0,beta=0)"]


class Ranked(StrEnum):
    """The queries to rank."""

    tail = "tail"
    all = "all"


def evaluate(
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL", help="Runs of kgprobe train, or any MODEL of kgprobe rank.")
    ],
    world: Annotated[
        str, typer.Option("--world", "-w", metavar="WORLD", help="Folder written by kgprobe openworld split.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the rank files.")],
    task: Annotated[
        Ranked, typer.Option(help="Tail queries with many answers, or all hard triples on both sides.")
    ] = Ranked.tail,
    queries: Annotated[int, typer.Option(metavar="N", help="Maximum number of sampled tail queries.")] = 500,
    least: Annotated[int, typer.Option(metavar="N", help="Minimum number of hard answers of a tail query.")] = 10,
    facts: Annotated[int, typer.Option(metavar="N", help="With --task all: number of sampled triples; 0 for all.")] = 0,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the sample.")] = 0,
    correlated: Annotated[
        bool, typer.Option("--correlated", help="Published worlds: the answers that a model ranked lowest are missing.")
    ] = False,
    metric: MetricOption = None,
    device: Annotated[
        str, typer.Option("--device", metavar="DEVICE", help="cpu, or a torch device such as cuda.")
    ] = "cpu",
    threads: Annotated[int | None, typer.Option(metavar="N", help="CPU threads.", show_default="all")] = None,
    memory: Annotated[str, typer.Option(metavar="SIZE", help="Working memory, besides embeddings and filter.")] = "1GB",
    force: Annotated[bool, typer.Option("--force", help="Rank again, even if rank files exist.")] = False,
    format: FormatOption = Format.table,  # noqa: A002
) -> None:
    """Rank models in the open world, where missing triples count as false, and in the closed world.

    In the open world, known answers are ranked with known triples filtered. In the closed world, known and missing
    answers are ranked with all true triples filtered. Ranks are written to FOLDER/MODEL/CHECKPOINT.open.parquet and
    .closed.parquet, for every snapshot of a run (kgprobe train --set snapshot_every=N), or for one checkpoint called
    final. Existing rank files are kept, so an interrupted run can be continued.
    """
    from kgprobe.metrics.catalogue import parse_all
    from kgprobe.openworld.world_files import read_world
    from kgprobe.openworld.world_ranks import RankPair, checkpoints_of, pair_paths
    from kgprobe.openworld.world_tasks import all_task, tail_task
    from kgprobe.resources import Resources, parse_memory, raise_unpacking_limit

    names = [str(parsed) for parsed in parse_all(metric or METRICS)]
    resources = Resources(device, threads, parse_memory(memory))
    raise_unpacking_limit(resources.memory)
    checkpoints = checkpoints_of(models, output)
    written = [path for found in checkpoints for path in pair_paths(found.folder, found.name).values()]
    refuse_overwriting(written, [*models, *graph_inputs(world)])
    require_writable(output / "ranks")
    opened = read_world(world, correlated)
    chosen = tail_task(opened, queries, least, seed=seed) if task is Ranked.tail else all_task(opened, facts, seed)
    ranked = set() if force else _ranked_already(checkpoints, opened, chosen)
    if ranked:
        note(f"{len(ranked)} of {len(checkpoints)} checkpoints are already ranked")
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
    """The checkpoints that are already ranked; a DataError if a folder holds ranks of something else."""
    ranked, problems = set(), []
    for checkpoint in checkpoints:
        try:
            ranked |= {checkpoint.path} if checkpoint.is_ranked(world, task) else set()
        except DataError as error:
            problems += error.problems or [error.title]
    if problems:
        title = "the folder holds ranks of other models, worlds or queries"
        raise DataError(title, problems, "choose another folder, or replace them with --force")
    return ranked


def _row(checkpoint: RankedCheckpoint, pair: RankPair, metrics: Sequence[str]) -> Record:
    from kgprobe.metrics import evaluate

    values = {world: evaluate(getattr(pair, world), metrics) for world in ("open", "closed")}
    scores = {f"{metric} {world}": values[world][metric] for metric in metrics for world in values}
    return {"model": checkpoint.model, "checkpoint": checkpoint.name} | scores
