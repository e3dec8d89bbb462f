"""``kgprobe rank``: rank the test triples of a graph with a model and write a rank file."""

from __future__ import annotations

import re
import shutil
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgprobe.cli.console import NamesOption, counting, graph_inputs, load, note
from kgprobe.errors import UsageError, naming
from kgprobe.files import refuse_overwriting, require_writable
from kgprobe.report.grid import counted

if TYPE_CHECKING:
    from kgprobe.predict import Sampling, Setting
    from kgprobe.predict.blocks.block_plan import Part
    from kgprobe.ranks import Ranks


def rank(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Baseline, or file or folder of a model.")],
    graph: Annotated[str, typer.Option("--graph", "-g", metavar="GRAPH", help="Directory or name of the graph.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="OUT", help="Rank file to write.", show_default="required")
    ] = None,
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
    blocks: Annotated[
        Path | None,
        typer.Option(
            "--blocks", metavar="DIR", help="Keep finished blocks of the ranking here, and continue with these."
        ),
    ] = None,
    part: Annotated[
        str | None, typer.Option("--part", metavar="I/N", help="Count this share of the blocks alone: 1/8 up to 8/8.")
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(
            "--ray", metavar="[ADDRESS]", help="Count the blocks on a Ray cluster; on this machine without an address."
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Workers of Ray.", show_default="as many as there is room for")
    ] = None,
    cpus: Annotated[
        int | None, typer.Option(metavar="N", help="CPUs of each worker.", show_default="those of the smallest node")
    ] = None,
    gpus: Annotated[
        float | None,
        typer.Option(metavar="X", help="GPUs of each worker, such as 0.5.", show_default="1 with --device cuda"),
    ] = None,
) -> None:
    """Rank the target of every test query among all candidates.

    MODEL is a baseline (random, entity-frequency, relation-frequency), a run of kgprobe train or one of its
    checkpoints, an embedding file (.npz or .safetensors with a header), a checkpoint folder of the RotatE code base, a
    file or folder of PyKEEN, LibKGE, PyTorch-BigGraph, DGL-KE or Marius, a score file (one matrix per side) or top-k
    lists (.jsonl). Device, threads, memory, batch, shards, blocks and Ray change the run time, never the ranks.

    With --blocks, a ranking that was interrupted goes on where it was, and several processes and machines can share the
    work: each counts a --part, and kgprobe blocks merge writes the rank file.
    """
    from kgprobe.predict import Opening, Ray, Sampling, Setting, count_blocks, open_model, rank_in
    from kgprobe.predict.adapters.list_matching import ListOptions
    from kgprobe.predict.blocks.block_counting import ByBlocks, Executor, Recipe, ThisProcess
    from kgprobe.predict.blocks.block_plan import Part
    from kgprobe.resources import Resources, parse_memory, raise_unpacking_limit

    resources = Resources(device, threads, parse_memory(memory), batch, shards=shards)
    raise_unpacking_limit(resources.memory)
    sampling = Sampling.of(sample, by, seed)
    lists = ListOptions.of(unlisted, unknown, duplicates, nearest)
    share = None if part is None else Part.parse(part)
    _require_consistent(output, blocks, share, ray, {"workers": workers, "cpus": cpus, "gpus": gpus}, sampling)
    known = [filter, *re.split("[+,]", filter)] if filter else []  # names of splits are no files
    folder = blocks or (output.with_name(f"{output.name}.blocks") if ray is not None and output else None)
    outputs = [*([output] if output else []), *([folder / "ranking.json"] if folder else [])]
    refuse_overwriting(
        outputs, [model, *graph_inputs(graph, names), *([triples] if triples else []), *known, candidates]
    )
    if output is not None:
        require_writable(output)
    choices: dict[str, Any] = {
        "split": split,
        "sides": side,
        "triples": triples,
        "filter": filter,
        "candidates": candidates,
    }
    options: dict[str, Any] = {"seed": seed, "trust_pickle": trust_pickle, "lists": lists}
    with ExitStack() as stack:
        if folder is not None:
            # A session begins first: graph and model are opened while it starts.
            executor: Executor = (
                ThisProcess() if ray is None else Ray(None if ray == LOCAL else ray, workers, cpus, gpus)
            )
            session = stack.enter_context(executor.session(Recipe(model, graph, choices, options), device))
        knowledge = load(graph, names)
        assert knowledge is not None
        setting = Setting.build(knowledge, **choices)
        opened = open_model(model, Opening(setting.graph, setting.ranked, **options))
        start = time.monotonic()
        progress = stack.enter_context(counting("ranking", setting.queries, "queries"))
        stack.enter_context(naming(model))
        if folder is None:
            ranks = rank_in(setting, opened, resources, name, progress, sampling)
        else:
            directory = count_blocks(setting, opened, ByBlocks(folder, session, share), resources, name, progress)
    if folder is not None and output is None:
        of = counted(len(directory.plan.blocks), "block")
        note(f"counted part {share} of {of}; when all parts are: kgprobe blocks merge {folder}")
        return
    assert output is not None
    ranks = ranks if folder is None else directory.merged()
    ranks.write(output)
    if folder is not None and blocks is None:
        shutil.rmtree(folder)
    _report(setting, ranks, output, time.monotonic() - start)


LOCAL = "local"
"""The value of --ray without an address."""


def _require_consistent(
    output: Path | None,
    blocks: Path | None,
    part: Part | None,
    ray: str | None,
    of_ray: dict[str, float | None],
    sampling: Sampling | None,
) -> None:
    """Refuse options that do not go together; all at once."""
    problems = []
    if part is None and output is None:
        problems.append("there is no rank file to write: give `output`")
    if part is not None and blocks is None:
        problems.append("`part` is a share of the blocks of a directory: give `blocks`")
    if part is not None and output is not None:
        problems.append("`part` makes no rank file, kgprobe blocks merge does: leave out `output`")
    if sampling is not None and (blocks is not None or ray is not None):
        problems.append("samples are not ranked by blocks: leave out `sample`, or `blocks` and `ray`")
    unused = [f"`{option}`" for option, value in of_ray.items() if value is not None and ray is None]
    if unused:
        problems.append(f"{', '.join(unused)} belong to `ray`")
    if problems:
        raise UsageError("these options cannot be used together", problems)


def _report(setting: Setting, ranks: Ranks, output: Path, seconds: float) -> None:
    known, rate = "+".join(setting.known.names) or "nothing", len(ranks) / max(seconds, 1e-9)
    note(f"wrote {output}: {len(ranks):,} queries in {seconds:,.1f} s ({rate:,.0f} a second), filtered by {known}")
    if ranks.info.sample is not None:
        note(ranks.info.sample.warning)
    if ranks.info.lists is not None:
        note(str(ranks.info.lists))
    if setting.ranked.repeated:
        note(f"{counted(setting.ranked.repeated, 'duplicate triple')} ranked only once")
