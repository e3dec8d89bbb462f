"""import_ranks: read rank files of other programs, in tables of many shapes or in PROBE's JSON."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from kgprobe.errors import DataError, UsageError, nearest
from kgprobe.graph import SPLITS, GraphLike, as_graph
from kgprobe.ranks.importers.column_mapping import (
    agrees,
    apply_recipe,
    choose_recipe,
    find_columns,
    label_name,
    mapping_problems,
    missing_columns,
    read_candidates,
    read_quantity,
    to_long,
    wide_columns,
    with_tie,
)
from kgprobe.ranks.importers.drafts import Draft, ImportOptions, infer_types, is_number, is_text, plain
from kgprobe.ranks.importers.final_tables import finish_import
from kgprobe.ranks.importers.probe_json import read_probe_json
from kgprobe.ranks.importers.table_files import FORMATS, TEXT_FORMATS, format_of, read_table
from kgprobe.ranks.importers.triple_columns import invert_relations, read_side, read_triples
from kgprobe.ranks.schema import POPULARITY
from kgprobe.ranks.table import Ranks

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

AUTO = "auto"
TIES = ("mean", "optimistic", "pessimistic")


def import_ranks(
    paths: Paths,
    format: str = AUTO,  # noqa: A002
    *,
    graph: GraphLike | None = None,
    num_entities: int | None = None,
    columns: Mapping[str, str] | None = None,
    raw: bool = False,
    labels: bool = False,
    zero_based: bool = False,
    tie: str = "mean",
    inverse_relations: bool = False,
    model: str | None = None,
    split: str | None = None,
    seed: int | None = None,
) -> Ranks:
    r"""Read rank files of other programs.

    Tables (CSV, TSV, Parquet, JSON, JSON Lines) have one row per query, or one per triple with the ranks of both sides
    (``head_rank``, ``tail_rank``). Columns are recognised by their usual names, or named with ``columns``. Instead of
    rank and ties, a table may have optimistic and pessimistic ranks, or the numbers of other candidates that scored
    greater and equal. Instead of candidates, it may have the number of filtered entities, or neither if the graph has
    its training triples: its known answers then count as filtered. Other columns are kept as labels to group by.

    If a file cannot be right as it stands, the error names the argument under which all rows would be. What had to be
    taken for granted is recorded in ``ranks.info.imported.assumed``, what was checked in ``verified``.

    PROBE's JSON is a list of entries ``[[head, relation, tail], "h" | "t", rank, delta(r|e), delta(e), filtered]``.

    Args:
        paths: One file, or one per training run; files may be compressed (.gz). The seed of a run is the number at
            the end of its file name, unless the files have a column ``seed``.
        format: "csv", "tsv", "parquet", "json", "jsonl" or "probe-json"; "auto" looks at the name and content of
            each file.
        graph: The graph that was ranked; gives popularity, labels and known answers.
        num_entities: Number of entities, if there is no graph.
        columns: Names of columns in the file by what they hold, such as ``{"rank": "filtered_rank"}``.
        raw: The ranks are unfiltered: every entity is a candidate.
        labels: Heads, relations and tails are labels, even if they look like ids.
        zero_based: The ranks count from 0.
        tie: What the ranks are within a group of candidates with the target's score: "mean", "optimistic" (the best)
            or "pessimistic" (the worst). The latter become mean ranks if the number of ties is recorded too.
        inverse_relations: Relation ids from the number of relations on are inverse relations: (t, r + number, ?) is
            the head query (?, r, t). A column of sides is then not needed.
        model: Name of the model in reports.
        split: The split that was ranked.
        seed: Training seed of a single file.

    Raises:
        UsageError: The arguments contradict each other, or do not apply to the format.
        DataError: The files are not rank tables; every problem is listed.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "mine.csv"
        >>> _ = path.write_text("h,r,t,predicted,optimistic,pessimistic,kind\n0,0,1,tail,1,4,easy\n")
        >>> ranks = import_ranks(path, num_entities=9, raw=True)
        >>> ranks.rank.tolist(), ranks.ties.tolist(), ranks.candidates.tolist(), ranks.column("kind").to_pylist()
        ([2.5], [3.0], [9.0], ['easy'])
    """
    files = [Path(paths)] if isinstance(paths, str | os.PathLike) else [Path(path) for path in paths]
    options = ImportOptions(
        num_entities=num_entities,
        columns=columns or {},
        raw=raw,
        labels=labels,
        zero_based=zero_based,
        tie=tie,
        inverse_relations=inverse_relations,
        model=model,
        split=split,
        seed=seed,
    )
    problems = request_problems(files, format, options, has_graph=graph is not None)
    if problems:
        raise UsageError("cannot import rank files with these arguments", problems)
    if unreadable := [f"{path}: {problem}" for path in files if (problem := _unreadable(path))]:
        raise DataError("nothing to import", unreadable, "check the names and the folders")
    drafts = [Draft(path, format_of(path) if format == AUTO else format) for path in files]
    if unfit := format_problems({draft.format for draft in drafts}, options, has_graph=graph is not None):
        raise UsageError("cannot import rank files with these arguments", unfit)
    options = replace(options, graph=as_graph(graph))
    for draft in drafts:
        if draft.format == "probe-json":
            read_probe_json(draft, options)
        elif (table := read_table(draft)) is not None:
            _fill(draft, table, options)
    infer_types([draft for draft in drafts if draft.format in TEXT_FORMATS])
    return finish_import(drafts, options)


def request_problems(
    files: Sequence[Path],
    format: str,  # noqa: A002
    options: ImportOptions,
    *,
    has_graph: bool,
) -> list[str]:
    """Errors in the arguments of `import_ranks`, without reading the files or the graph."""
    problems = [] if files else ["no file to import"]
    problems += [f"{path} is given twice" for path in dict.fromkeys(files) if files.count(path) > 1]
    problems += mapping_problems(options.columns)
    if format not in (*FORMATS, AUTO):
        known = ", ".join(f"{key} ({summary})" for key, summary in FORMATS.items())
        problems.append(f"unknown format {format!r}{nearest(format, (*FORMATS, AUTO))}; the formats are {known}")
    problems += format_problems({format}, options, has_graph=has_graph)
    if options.tie not in TIES:
        problems.append(f"unknown `tie` {options.tie!r}{nearest(options.tie, TIES)}; expected one of {', '.join(TIES)}")
    if has_graph and options.num_entities is not None:
        problems.append("both `graph` and `num_entities` are given: leave out one")
    if options.num_entities is not None and options.num_entities < 1:
        problems.append(f"`num_entities` is {options.num_entities}, expected at least 1")
    if options.split is not None and options.split not in SPLITS:
        problems.append(f"unknown split {options.split!r}{nearest(options.split, SPLITS)}")
    if options.seed is not None and len(files) > 1:
        problems.append(f"one `seed` for {len(files)} files: the seeds of several files come from their names")
    if options.seed is not None and abs(options.seed) >= 2**53:
        problems.append("`seed` is 2^53 or larger")
    return problems


def format_problems(formats: set[str], options: ImportOptions, *, has_graph: bool) -> list[str]:
    """Arguments that do not apply to these formats, and arguments that these formats need."""
    if "probe-json" not in formats:
        return []
    names = ("columns", "raw", "labels", "zero_based", "inverse_relations")
    unused = [name for name in names if getattr(options, name)] + ["tie"] * (options.tie != "mean")
    problems = [f"`{name}` does not apply to probe-json" for name in unused]
    if not has_graph and options.num_entities is None:
        problems.append("probe-json needs `graph` or `num_entities`")
    return problems


def _unreadable(path: Path) -> str | None:
    try:
        if path.is_dir():
            return "this is a folder, not a file"
        if path.exists() and not path.is_file():
            return "this is a pipe or a device; write it to a file first, because it is read more than once"
        with path.open("rb") as file:
            return None if file.read(1) else "the file is empty"
    except OSError as error:
        return "no such file" if isinstance(error, FileNotFoundError) else str(error)


def _is_name(column: pa.Array) -> bool:
    return is_text(column) or is_number(column)


def _fill(draft: Draft, table: pa.Table, options: ImportOptions) -> None:
    """Fill the draft with the columns of the table, or with the problems that prevent it."""
    if wide := wide_columns(table.column_names, options.columns):
        draft.wide = len({name.split("_")[0] for name in wide}) > 1
        table = to_long(table, wide)
    names = [name for name in table.column_names if name]
    if len(names) < len(table.column_names):
        draft.notes.append("a column without a name was left out")
    naming = find_columns(names, {name: column for name, column in options.columns.items() if name not in wide})
    naming = with_tie(naming, options.tie)
    recipe = choose_recipe(naming, options.tie)
    query = ["head", "relation", "tail"]
    query += ["side"] if "side" in naming.found or not options.inverse_relations else []
    draft.problems += naming.problems + missing_columns(naming, names, query, options.tie)
    if not table.num_rows:
        draft.problems.append("it has no rows")
    if draft.problems or recipe is None:
        return
    draft.rows = table.num_rows
    columns = {name: plain(table.column(source)) for name, source in naming.found.items()}
    if unnamed := [name for name in query if not _is_name(columns[name])]:
        draft.problems += [f"{name} holds {columns[name].type}, expected text or whole numbers" for name in unnamed]
        draft.rows = 0
        return
    draft.triples = {name: columns[name] for name in query[:3]}
    draft.names = {name: naming.found[name] for name in query[:3]}
    triples = read_triples(draft, columns, options.graph, labels=options.labels)
    side = read_side(draft, columns["side"]) if "side" in columns else pa.repeat("tail", draft.rows)
    if options.inverse_relations and len(triples) == 3:
        triples = invert_relations(draft, triples, options.graph, side)
        side = triples.pop("side")
    draft.columns |= triples | {"side": side} | apply_recipe(draft, columns, recipe, options)
    used = {*query, *recipe, read_candidates(draft, columns, triples, side, options)}
    for name in (*POPULARITY, "seed", "worst_rank"):
        if name in columns and name not in recipe:
            used.add(name)
            draft.columns[name] = read_quantity(draft, name, columns[name], options, nullable=name != "seed")
    if columns.keys() & set(POPULARITY):
        draft.popularity = "column"
        if options.graph is not None:
            draft.notes.append("the popularity of the graph replaces that of the file")
    for name in ("rank", "ties"):
        if name in columns and name not in used:
            derived = draft.columns.get(name)
            used |= {name} if agrees(draft, naming.found[name], columns[name], derived) else set()
    _keep_labels(draft, table, names, {naming.found[name] for name in used if name in naming.found})


def _keep_labels(draft: Draft, table: pa.Table, names: Sequence[str], used: set[str]) -> None:
    """Keep the columns that are not used as labels."""
    for name in names:
        if name not in used:
            label = label_name(name)
            while label in draft.columns:
                label = f"source_{label}"
            draft.columns[label] = plain(table.column(name))
