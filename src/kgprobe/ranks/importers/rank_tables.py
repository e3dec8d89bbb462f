"""Import rank tables of other programs: CSV, TSV or Parquet with columns of any name; all formats by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING

import pyarrow as pa

from kgprobe.errors import UsageError, nearest
from kgprobe.graph.load import as_graph
from kgprobe.ranks.importers.column_mapping import (
    CandidateCounts,
    Naming,
    agrees,
    apply_recipe,
    choose_recipe,
    find_columns,
    label_name,
    mapping_problems,
    missing_column,
    read_candidates,
    read_side,
    read_triples,
)
from kgprobe.ranks.importers.drafts import Draft, Given, Reading, finish_import, option_problems
from kgprobe.ranks.importers.foreign_files import each_path, format_of, infer_types, plain, read_numbers, source_of
from kgprobe.ranks.importers.probe_json import import_probe_json
from kgprobe.ranks.schema import POPULARITY
from kgprobe.ranks.table import Ranks

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph
    from kgprobe.graph.load import GraphLike


def import_table(
    paths: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    columns: Mapping[str, str] | None = None,
    graph: KnowledgeGraph | None = None,
    num_entities: int | None = None,
    format: str | None = None,  # noqa: A002
    raw: bool = False,
    labels: bool = False,
    model: str | None = None,
    split: str | None = None,
    seed: int | None = None,
) -> Ranks:
    r"""Read tables with one row for each query, whose first line names the columns.

    Columns are found under their own or their usual names (`columns.SYNONYMS`). In place of rank and ties,
    there may be optimistic and pessimistic ranks, or how many other candidates scored greater and equal. In
    place of candidates, how many were filtered; or none of it, where the graph has its training triples: then
    its known answers count as filtered. Columns that mean nothing here are kept, as labels to group by.

    Args:
        paths: One file, or several: then each is a training run (see `seeds_of`), unless they have a column
            ``seed``. May be compressed (.gz). In CSV fields may be quoted, in TSV a quotation mark is a character.
        columns: Names of columns in the file by what they are, for those with unusual names.
        graph: The graph, for popularity, labels and known answers.
        num_entities: Number of entities, where the graph is not at hand.
        format: "csv", "tsv" or "parquet"; by default what the file's name says.
        raw: Nothing was filtered: every entity is a candidate.
        labels: Heads, relations and tails are labels even where they look like ids.
        model: What reports call the model.
        split: The split that was ranked.
        seed: The training run of a single file.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "mine.csv"
        >>> _ = path.write_text("h,r,t,predicted,optimistic,pessimistic,kind\n0,0,1,tail,1,4,easy\n")
        >>> ranks = import_table(path, num_entities=9, raw=True)
        >>> ranks.rank.tolist(), ranks.ties.tolist(), ranks.candidates.tolist(), ranks.column("kind").to_pylist()
        ([2.5], [3.0], [9.0], ['easy'])
    """
    files = each_path(paths)
    given = Given(graph, num_entities, model, split, seed, len(files))
    formats = [format or format_of(path) for path in files]
    drafts, ways = [], []
    for path, name in zip(files, formats, strict=True):
        draft = Draft(path)
        table = source_of(name)(path, draft)
        if table is not None:
            ways.append(_fill(draft, table, columns or {}, given, raw=raw, labels=labels))
        drafts.append(draft)
    infer_types([draft for draft, name in zip(drafts, formats, strict=True) if name != "parquet"])
    found = [way for way in ways if way is not None]
    reading = Reading(
        format=", ".join(dict.fromkeys(formats)),
        candidates="; ".join(dict.fromkeys(way.origin for way in found)),
        popularity="column" if any(name in draft.columns for draft in drafts for name in POPULARITY) else None,
        filtered=found[0].filtered if len({way.filtered for way in found}) == 1 else None,
    )
    return finish_import(drafts, given, reading)


def _fill(
    draft: Draft, table: pa.Table, mapping: Mapping[str, str], given: Given, *, raw: bool, labels: bool
) -> CandidateCounts | None:
    """Fill the draft with what the table says, or with what keeps it from being understood."""
    names = [name for name in table.column_names if name]
    if len(names) < len(table.column_names):
        draft.notes.append("a column without a name was left out")
    naming = find_columns(names, mapping)
    recipe = choose_recipe(naming)
    draft.problems += naming.problems + _missing(naming, names, mapping, has_rank=recipe is not None)
    if not table.num_rows:
        draft.problems.append("it has no rows")
    if draft.problems or recipe is None:
        return None
    draft.rows = table.num_rows
    columns = {name: plain(table.column(source)) for name, source in naming.found.items()}
    triples = read_triples(draft, columns, given.graph, labels=labels)
    side = read_side(draft, columns["side"])
    ranks = apply_recipe(draft, columns, recipe)
    candidates = read_candidates(draft, columns, triples, side, given, raw=raw)
    draft.columns |= triples | {"side": side} | ranks
    if candidates.values is not None:
        draft.columns["candidates"] = candidates.values
    for name in (*POPULARITY, "seed", "worst_rank"):
        if name in columns and name not in recipe.sources:
            nullable, whole = name != "seed", name == "seed"
            draft.columns[name] = read_numbers(draft, name, columns[name], whole=whole, nullable=nullable)
    if given.graph is not None and any(name in columns for name in POPULARITY):
        draft.notes.append("the popularity of the graph replaces that of the file")
    used = {"head", "relation", "tail", "side", "seed", "worst_rank", *POPULARITY, *recipe.sources, candidates.column}
    for name in ("rank", "ties"):
        if name in columns and name not in used and agrees(draft, naming.found[name], columns[name], ranks.get(name)):
            used.add(name)
    _keep_labels(draft, table, {naming.found[name] for name in used & naming.found.keys()})
    return candidates


def _keep_labels(draft: Draft, table: pa.Table, used: set[str]) -> None:
    """Keep the columns that mean nothing here, under names that mean nothing either."""
    for name in table.column_names:
        if name and name not in used:
            draft.columns[_free_name(label_name(name), draft.columns)] = plain(table.column(name))


def _missing(naming: Naming, names: Sequence[str], mapping: Mapping[str, str], *, has_rank: bool) -> list[str]:
    # A column that the user named and that is not there has been complained about already.
    wanted = [name for name in ("head", "relation", "tail", "side") if name not in naming.found and name not in mapping]
    problems = [missing_column(name) for name in wanted]
    if not has_rank and not {"rank", "optimistic", "pessimistic", "greater", "equal"} & mapping.keys():
        problems.append(f"{missing_column('rank')}, nor optimistic and pessimistic, nor greater and equal")
    if problems:
        doubt = ": is the format the right one?" if len(names) == 1 else ""
        problems.append(f"the columns found are: {', '.join(names) or 'none'}{doubt}")
    return problems


def _free_name(name: str, taken: Mapping[str, pa.Array]) -> str:
    while name in taken:
        name = f"source_{name}"
    return name


@dataclass(frozen=True)
class Importer:
    """A format of foreign rank files.

    Attributes:
        summary: What the files look like.
        read: Takes the files and, by name: graph, num_entities, model, split, seed, and the options.
        options: What it can be told besides.
        needs_size: Whether it always needs the graph or its number of entities.

    Example:
        >>> sorted(IMPORTERS), sorted(IMPORTERS["csv"].options), IMPORTERS["probe-json"].needs_size
        (['csv', 'parquet', 'probe-json', 'tsv'], ['columns', 'labels', 'raw'], True)
    """

    summary: str
    read: Callable[..., Ranks]
    options: frozenset[str] = frozenset()
    needs_size: bool = False


def import_ranks(
    paths: str | PathLike[str] | Sequence[str | PathLike[str]],
    format: str | None = None,  # noqa: A002
    *,
    graph: GraphLike | None = None,
    num_entities: int | None = None,
    columns: Mapping[str, str] | None = None,
    raw: bool = False,
    labels: bool = False,
    model: str | None = None,
    split: str | None = None,
    seed: int | None = None,
) -> Ranks:
    r"""Read rank files of other programs.

    Args:
        paths: One file, or one for each training run.
        format: "csv", "tsv", "parquet" or "probe-json"; by default what the name of the first file says.
        graph: The graph that was ranked; gives popularity, labels and known answers.
        num_entities: Number of entities, where the graph is not at hand.
        columns: Names of columns in the file by what they hold, such as ``{"rank": "filtered_rank"}``.
        raw: Nothing was filtered: every entity is a candidate.
        labels: Heads, relations and tails are labels even where they look like ids.
        model: Name of the model in reports.
        split: The split that was ranked.
        seed: The training run of a single file.

    Raises:
        UsageError: The arguments contradict each other, or the format does not know one of them.
        DataError: The files are not rank tables; every problem is listed.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "mine.csv"
        >>> _ = path.write_text("head,relation,tail,side,rank,candidates\n0,0,1,tail,2,9\n")
        >>> import_ranks(path).rank.tolist()
        [2.0]
    """
    files = each_path(paths)
    name = format or ("probe-json" if files and files[0].name.endswith((".json", ".json.gz")) else format_of(files[0]))
    importer = IMPORTERS.get(name)
    problems = mapping_problems(columns or {})
    options = {"columns": columns or {}, "raw": raw, "labels": labels}
    if importer is None:
        known = ", ".join(f"{key} ({each.summary})" for key, each in IMPORTERS.items())
        problems.append(f"unknown format {name!r}{nearest(name, IMPORTERS)}; the formats are {known}")
    else:
        unused = [option for option, value in options.items() if value and option not in importer.options]
        problems += [f"`{option}` does not apply to {name}" for option in unused]
        if importer.needs_size and graph is None and num_entities is None:
            problems.append(f"{name} needs `graph` or `num_entities`")
    problems += option_problems(
        has_graph=graph is not None, entities=num_entities, split=split, seed=seed, files=len(files)
    )
    if problems or importer is None:
        raise UsageError("cannot import these rank files", problems)
    return importer.read(
        files,
        graph=as_graph(graph),
        num_entities=num_entities,
        model=model,
        split=split,
        seed=seed,
        **{option: value for option, value in options.items() if option in importer.options},
    )


def _table(format: str, summary: str) -> Importer:  # noqa: A002
    return Importer(summary, partial(import_table, format=format), frozenset({"columns", "raw", "labels"}))


IMPORTERS: dict[str, Importer] = {
    "probe-json": Importer("the JSON of the authors of PROBE", import_probe_json, needs_size=True),
    "csv": _table("csv", "comma-separated columns, named in the first line"),
    "tsv": _table("tsv", "tab-separated columns, named in the first line"),
    "parquet": _table("parquet", "columns of any names"),
}
