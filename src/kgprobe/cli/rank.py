"""``kgprobe rank``: rank the test triples of a graph with a model and write a rank file."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kgprobe.cli.console import NamesOption, counting, graph_inputs, load, note
from kgprobe.errors import naming
from kgprobe.files import refuse_overwriting, require_writable
from kgprobe.report.grid import counted

if TYPE_CHECKING:
    from kgprobe.predict import Setting
    from kgprobe.ranks import Ranks


def rank(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Baseline, or file or folder of a model.")],
    graph: Annotated[str, typer.Option("--graph", "-g", metavar="GRAPH", help="Directory or name of the graph.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="OUT", help="Rank file to write.")],
    names: NamesOption = None,
    split: Annotated[str, typer.Option("--split", metavar="SPLIT", help="Split to rank.")] = "test",
    side: Annotated[
        str, typer.Option("--side", metavar="SIDE", help="Side to predict: head (subject), tail (object) or both.")
    ] = "both",
    triples: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Rank the triples of this file instead of a split.")
    ] = None,
    filter: Annotated[  # noqa: A002
        str | None,
        typer.Option(
            metavar="SPLITS",
            help="Known triples to filter: none, all, or splits and files joined by '+'.",
            show_default="train+valid for valid, train+valid+test for test",
        ),
    ] = None,
    candidates: Annotated[
        str,
        typer.Option(
            metavar="SET",
            help="all entities, train (seen on that side of the relation), or a file of candidates or entity types.",
        ),
    ] = "all",
    unlisted: Annotated[
        str, typer.Option(metavar="HOW", help="Candidates outside a top-k list: unknown (rank intervals) or tied.")
    ] = "unknown",
    unknown: Annotated[
        str,
        typer.Option(metavar="HOW", help="Answers of top-k lists that are no entity: error, drop or keep-as-wrong."),
    ] = "error",
    duplicates: Annotated[
        str, typer.Option(metavar="HOW", help="Answers that a top-k list has twice: error, or first (it counts once).")
    ] = "error",
    nearest: Annotated[
        float | None,
        typer.Option(
            metavar="CUTOFF",
            help="Match unknown answers to the most similar name, from this similarity on (0.9 for example).",
            show_default="not matched",
        ),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Estimate the ranks from N random candidates of each query; metrics then have intervals.",
            show_default="all candidates",
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="STRATA", help="relation-type: count all that train has on that side, sample others."),
    ] = None,
    device: Annotated[
        str,
        typer.Option("--device", metavar="DEVICE", help="cpu, or a torch device: cuda; cuda:0,cuda:1."),
    ] = "cpu",
    threads: Annotated[int | None, typer.Option(metavar="N", help="CPU threads.", show_default="all")] = None,
    memory: Annotated[str, typer.Option(metavar="SIZE", help="Working memory, besides embeddings and filter.")] = "1GB",
    batch: Annotated[int | None, typer.Option(metavar="N", help="Queries per batch.", show_default="automatic")] = None,
    shards: Annotated[int, typer.Option(metavar="N", help="Shards of the entities, processed in turn.")] = 1,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the random baseline, and of --sample.")] = 0,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Model name for reports.")] = None,
    trust_pickle: Annotated[
        bool, typer.Option("--trust-pickle", help="Load a pickled model; this can run arbitrary code.")
    ] = False,
) -> None:
    """Rank the target of every test query among all candidates.

    MODEL is a baseline (random, entity-frequency, relation-frequency), a run of kgprobe train or one of its
    checkpoints, an embedding file (.npz or .safetensors with a header), a checkpoint folder of the RotatE code base, a
    folder saved by PyKEEN, a score file (one matrix per side) or top-k lists (.jsonl). Device, threads, memory, batch
    and shards change the run time, never the ranks.
    """
    from kgprobe.predict import Opening, Sampling, Setting, open_model, rank_in
    from kgprobe.predict.adapters.list_matching import ListOptions
    from kgprobe.resources import Resources, parse_memory, raise_unpacking_limit

    resources = Resources(device, threads, parse_memory(memory), batch, shards=shards)
    raise_unpacking_limit(resources.memory)
    sampling = Sampling.of(sample, by, seed)
    lists = ListOptions.of(unlisted, unknown, duplicates, nearest)
    known = [filter, *re.split("[+,]", filter)] if filter else []  # names of splits are no files
    refuse_overwriting(
        [output], [model, *graph_inputs(graph, names), *([triples] if triples else []), *known, candidates]
    )
    require_writable(output)
    knowledge = load(graph, names)
    assert knowledge is not None
    setting = Setting.build(knowledge, split=split, sides=side, triples=triples, filter=filter, candidates=candidates)
    opened = open_model(model, Opening(setting.graph, setting.ranked, seed, trust_pickle, lists))
    start = time.monotonic()
    with counting("ranking", setting.queries, "queries") as progress, naming(model):
        ranks = rank_in(setting, opened, resources, name, progress, sampling)
    ranks.write(output)
    _report(setting, ranks, output, time.monotonic() - start)


def _report(setting: Setting, ranks: Ranks, output: Path, seconds: float) -> None:
    known, rate = "+".join(setting.known.names) or "nothing", len(ranks) / max(seconds, 1e-9)
    note(f"wrote {output}: {len(ranks):,} queries in {seconds:,.1f} s ({rate:,.0f} a second), filtered by {known}")
    if ranks.info.sample is not None:
        note(ranks.info.sample.warning)
    if ranks.info.lists is not None:
        note(str(ranks.info.lists))
    if setting.ranked.repeated:
        note(f"{counted(setting.ranked.repeated, 'duplicate triple')} ranked only once")
