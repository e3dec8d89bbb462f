"""``kgprobe rank``: a model and a graph become a rank file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kgprobe.cli.console import counting, note
from kgprobe.files import require_writable

if TYPE_CHECKING:
    from kgprobe.predict import Setting
    from kgprobe.ranks import Ranks


def rank(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A baseline, or the file or folder of a model.", show_default=False)
    ],
    graph: Annotated[
        str, typer.Option("--graph", "-g", metavar="GRAPH", help="Directory or name of the graph.", show_default=False)
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="OUT", help="The rank file to write.", show_default=False)
    ],
    split: Annotated[str, typer.Option("--split", metavar="SPLIT", help="The split that is ranked.")] = "test",
    side: Annotated[
        str, typer.Option("--side", metavar="SIDE", help="What is predicted: head, tail or both.")
    ] = "both",
    triples: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Rank the facts of this file instead of a split.")
    ] = None,
    filter: Annotated[  # noqa: A002
        str | None,
        typer.Option(
            metavar="SPLITS",
            help="Whose facts are no candidates: none, all, or splits and files joined by '+'.",
            show_default="train+valid where valid is ranked, train+valid+test where test is",
        ),
    ] = None,
    candidates: Annotated[
        str,
        typer.Option(
            metavar="SET", help="all entities, those seen in train on that side of the relation, or a file of sets."
        ),
    ] = "all",
    unlisted: Annotated[
        str, typer.Option(metavar="HOW", help="Candidates that a top-k list leaves out: unknown, or all tied.")
    ] = "unknown",
    device: Annotated[
        str, typer.Option("--device", metavar="DEVICE", help="cpu, or a device of torch such as cuda.")
    ] = "cpu",
    threads: Annotated[int | None, typer.Option(metavar="N", help="Threads on the CPU.", show_default="all")] = None,
    memory: Annotated[str, typer.Option(metavar="SIZE", help="Working memory beside vectors and filter.")] = "1GB",
    batch: Annotated[int | None, typer.Option(metavar="N", help="Queries at a time.", show_default="chosen")] = None,
    shards: Annotated[int, typer.Option(metavar="N", help="Ranges of entities that are counted in turn.")] = 1,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the random baseline.")] = 0,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Name of the model, for reports.")] = None,
    trust_pickle: Annotated[
        bool, typer.Option("--trust-pickle", help="Load a pickled model, which can run any program.")
    ] = False,
) -> None:
    """Rank every test fact against all entities.

    MODEL is a baseline (random, entity-frequency, relation-frequency), a run of kgprobe train or one of its
    checkpoints, an embedding file (.npz or .safetensors with a header), a checkpoint folder of the RotatE code base, a
    folder that PyKEEN saved, a score file (a matrix for each side) or top-k lists (.jsonl). Device, threads, memory,
    batch and shards change how long it takes, never the ranks.
    """
    from kgprobe.graph import load_graph
    from kgprobe.predict import Opening, Setting, open_model, rank_in
    from kgprobe.predict.adapters.top_k import Unlisted
    from kgprobe.resources import Resources, parse_memory

    resources = Resources(device, threads, parse_memory(memory), batch, shards=shards)
    how = Unlisted(unlisted)
    require_writable(output)
    setting = Setting.build(
        load_graph(graph), split=split, sides=side, triples=triples, filter=filter, candidates=candidates
    )
    opened = open_model(model, Opening(setting.graph, setting.ranked, seed, trust_pickle, how))
    start = time.monotonic()
    with counting("ranking", setting.queries, "queries") as progress:
        ranks = rank_in(setting, opened, resources, name, progress)
    ranks.write(output)
    _report(setting, ranks, output, time.monotonic() - start)


def _report(setting: Setting, ranks: Ranks, output: Path, seconds: float) -> None:
    filtered, rate = "+".join(setting.known.names) or "nothing", len(ranks) / max(seconds, 1e-9)
    note(f"wrote {output}: {len(ranks):,} queries in {seconds:,.1f} s ({rate:,.0f} a second), filtered by {filtered}")
    if setting.ranked.repeated:
        one = setting.ranked.repeated == 1
        how = "fact is given more than once and was" if one else "facts are given more than once and were"
        note(f"{setting.ranked.repeated:,} {how} ranked once")
