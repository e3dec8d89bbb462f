"""import_ranks: read rank files of other programs (CSV, TSV, Parquet with columns of any name, or PROBE's JSON)."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import csv as arrow_csv

from kgprobe.bounded_files import UNREADABLE, bounded_lines, disguise, open_bytes
from kgprobe.errors import DataError, UsageError, nearest
from kgprobe.graph import SPLITS, GraphLike, as_graph
from kgprobe.graph.parquet_graph import read_parquet
from kgprobe.graph.text_files import read_lines
from kgprobe.ranks.importers.column_mapping import (
    agrees,
    apply_recipe,
    choose_recipe,
    find_columns,
    label_name,
    mapping_problems,
    missing_columns,
    read_candidates,
    read_side,
    read_triples,
)
from kgprobe.ranks.importers.drafts import (
    Draft,
    ImportOptions,
    finish_import,
    infer_types,
    is_number,
    is_text,
    plain,
    read_numbers,
)
from kgprobe.ranks.importers.probe_json import read_probe_json
from kgprobe.ranks.schema import POPULARITY
from kgprobe.ranks.table import Ranks

if TYPE_CHECKING:
    from pyarrow.csv import InvalidRow

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

FORMATS = {
    "probe-json": "JSON of the authors of PROBE",
    "csv": "comma-separated columns, named in the first line",
    "tsv": "tab-separated columns, named in the first line",
    "parquet": "columns of any names",
}

_SUFFIXES = {
    ".json": "probe-json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".txt": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
}

# As in the TSV files of graphs, a quotation mark in TSV is a character like any other.
_DELIMITERS: dict[str, tuple[str, str | None]] = {"csv": (",", '"'), "tsv": ("\t", None)}
_LINES_SHOWN = 20
_MOST_COLUMNS = 10_000
_LONGEST_NAME = 1_000


def import_ranks(
    paths: Paths,
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

    Tables (CSV, TSV, Parquet) have one row per query. Columns are recognised by their usual names, or named with
    ``columns``. Instead of rank and ties, a table may have optimistic and pessimistic ranks, or the numbers of other
    candidates that scored greater and equal. Instead of candidates, it may have the number of filtered entities, or
    neither if the graph has its training triples: its known answers then count as filtered. Other columns are kept
    as labels to group by.

    PROBE's JSON is a list of entries ``[[head, relation, tail], "h" | "t", rank, delta(r|e), delta(e), filtered]``.

    Args:
        paths: One file, or one per training run; files may be compressed (.gz). The seed of a run is the number at
            the end of its file name, unless the files have a column ``seed``.
        format: "csv", "tsv", "parquet" or "probe-json"; by default from the ending of each file name.
        graph: The graph that was ranked; gives popularity, labels and known answers.
        num_entities: Number of entities, if there is no graph.
        columns: Names of columns in the file by what they hold, such as ``{"rank": "filtered_rank"}``.
        raw: The ranks are unfiltered: every entity is a candidate.
        labels: Heads, relations and tails are labels, even if they look like ids.
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
    options = ImportOptions(None, num_entities, columns or {}, raw, labels, model, split, seed)
    problems = request_problems(files, format, options, has_graph=graph is not None)
    if problems:
        raise UsageError("cannot import rank files with these arguments", problems)
    if unreadable := [f"{path}: {problem}" for path in files if (problem := _unreadable(path))]:
        raise DataError("nothing to import", unreadable, "check the names and the folders")
    options = replace(options, graph=as_graph(graph))
    drafts = [Draft(path, format or format_of(path) or "") for path in files]
    for draft in drafts:
        if draft.format == "probe-json":
            read_probe_json(draft, options)
        elif (table := read_table(draft)) is not None:
            _fill(draft, table, options)
    infer_types([draft for draft in drafts if draft.format in _DELIMITERS])
    return finish_import(drafts, options)


def request_problems(
    files: Sequence[Path],
    format: str | None,  # noqa: A002
    options: ImportOptions,
    *,
    has_graph: bool,
) -> list[str]:
    """Errors in the arguments of `import_ranks`, without reading the files or the graph."""
    problems = [] if files else ["no file to import"]
    problems += [f"{path} is given twice" for path in dict.fromkeys(files) if files.count(path) > 1]
    problems += mapping_problems(options.columns)
    known = ", ".join(f"{key} ({summary})" for key, summary in FORMATS.items())
    formats = {format} if format else {format_of(path) for path in files}
    if format and format not in FORMATS:
        problems.append(f"unknown format {format!r}{nearest(format, FORMATS)}; the formats are {known}")
    elif None in formats:
        unnamed = ", ".join(path.name for path in files if format_of(path) is None)
        problems.append(f"{unnamed}: the format is not clear from the name; give `format`: {known}")
    if "probe-json" in formats:
        unused = [name for name in ("columns", "raw", "labels") if getattr(options, name)]
        problems += [f"`{name}` does not apply to probe-json" for name in unused]
        if not has_graph and options.num_entities is None:
            problems.append("probe-json needs `graph` or `num_entities`")
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


def format_of(path: Path) -> str | None:
    """The format by the ending of a file name, if it is a known one.

    Example:
        >>> format_of(Path("ranks.tsv.gz"))
        'tsv'
    """
    suffixes = [suffix for suffix in path.suffixes if suffix != ".gz"]
    return _SUFFIXES.get(suffixes[-1].lower()) if suffixes else None


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


def read_table(draft: Draft) -> pa.Table | None:
    """The columns of a file, those of text files as strings; or None, with the problems added to the draft."""
    if draft.format == "parquet":
        return read_parquet(draft.path, draft.problems)
    try:
        if kind := disguise(draft.path):
            draft.problems.append(f"it is {kind}, expected text")
            return None
        names, skipped = _header(draft.path, *_DELIMITERS[draft.format])
        table = _read_rows(draft, len(names), skipped)
    except (pa.ArrowException, *UNREADABLE, UnicodeDecodeError) as error:
        _, problems = read_lines(draft.path, lambda line: [line], lambda _number, _fields: None, header=False)
        draft.problems += problems or [str(error).splitlines()[0]]
        return None
    return table.rename_columns(names)


def _header(path: Path, delimiter: str, quote: str | None) -> tuple[list[str], int]:
    """The names of the columns, and the number of lines up to and including them."""
    with open_bytes(path) as file:
        for number, raw in enumerate(bounded_lines(file), 1):
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            if line.strip():
                parse = arrow_csv.ParseOptions(delimiter=delimiter, quote_char=quote or False)
                read = arrow_csv.ReadOptions(use_threads=False, block_size=len(raw) + 2)
                names = arrow_csv.read_csv(io.BytesIO(line.encode() + b"\n"), read, parse).column_names
                if len(names) > _MOST_COLUMNS:
                    raise pa.ArrowInvalid(f"it has {len(names):,} columns; at most {_MOST_COLUMNS:,} are read")
                if (longest := max(map(len, names))) > _LONGEST_NAME:
                    raise pa.ArrowInvalid(f"a column has a name of {longest:,} characters; is its heading missing?")
                return [name.strip() for name in names], number
    raise pa.ArrowInvalid("there is nothing but blank lines")


def _read_rows(draft: Draft, columns: int, skipped: int) -> pa.Table:
    """All columns as strings ("007" may be a name), without the rows that have a wrong number of fields.

    These are named one by one in the problems of the draft.
    """
    delimiter, quote = _DELIMITERS[draft.format]
    types = {f"{i}": pa.string() for i in range(columns)}
    wrong: list[InvalidRow] = []

    def skip(row: InvalidRow) -> str:
        wrong.append(row)
        return "skip"

    def read(handler: Callable[[InvalidRow], str] | None) -> pa.Table:
        # Rows have line numbers only if they are read by a single thread.
        reading = arrow_csv.ReadOptions(
            column_names=list(types), skip_rows=skipped, use_threads=handler is None, block_size=1 << 24
        )
        parsing = arrow_csv.ParseOptions(
            delimiter=delimiter, quote_char=quote or False, newlines_in_values=bool(quote), invalid_row_handler=handler
        )
        # An entity may be called "NA": null values are decided column by column.
        converting = arrow_csv.ConvertOptions(column_types=types, strings_can_be_null=False)
        with open_bytes(draft.path) as file:
            return arrow_csv.read_csv(file, reading, parsing, converting)

    try:
        return read(None)
    except pa.ArrowInvalid:
        _, undecodable = read_lines(draft.path, lambda line: [line], lambda _number, _fields: None, header=False)
        if undecodable:
            raise
    table = read(skip)
    draft.problems += [
        f"line {row.number}: {row.actual_columns} fields, expected {row.expected_columns}: {row.text[:60]!r}"
        for row in wrong[:_LINES_SHOWN]
    ]
    if len(wrong) > _LINES_SHOWN:
        draft.problems.append(f"{len(wrong) - _LINES_SHOWN:,} more lines have a wrong number of fields")
    return table


def _is_name(column: pa.Array) -> bool:
    return is_text(column) or is_number(column)


def _fill(draft: Draft, table: pa.Table, options: ImportOptions) -> None:
    """Fill the draft with the columns of the table, or with the problems that prevent it."""
    names = [name for name in table.column_names if name]
    if len(names) < len(table.column_names):
        draft.notes.append("a column without a name was left out")
    naming = find_columns(names, options.columns)
    recipe = choose_recipe(naming)
    draft.problems += naming.problems + missing_columns(naming, names)
    if not table.num_rows:
        draft.problems.append("it has no rows")
    if draft.problems or recipe is None:
        return
    draft.rows = table.num_rows
    columns = {name: plain(table.column(source)) for name, source in naming.found.items()}
    unnamed = [name for name in ("head", "relation", "tail", "side") if not _is_name(columns[name])]
    if unnamed:
        draft.problems += [f"{name} holds {columns[name].type}, expected text or whole numbers" for name in unnamed]
        draft.rows = 0
        return
    triples = read_triples(draft, columns, options.graph, labels=options.labels)
    side = read_side(draft, columns["side"])
    draft.columns |= triples | {"side": side} | apply_recipe(draft, columns, recipe)
    used = {"head", "relation", "tail", "side", *recipe, read_candidates(draft, columns, triples, side, options)}
    for name in (*POPULARITY, "seed", "worst_rank"):
        if name in columns and name not in recipe:
            used.add(name)
            whole = name == "seed"
            draft.columns[name] = read_numbers(draft, name, columns[name], whole=whole, nullable=not whole)
    if columns.keys() & set(POPULARITY):
        draft.popularity = "column"
        if options.graph is not None:
            draft.notes.append("the popularity of the graph replaces that of the file")
    for name in ("rank", "ties"):
        if name in columns and name not in used:
            derived = draft.columns.get(name)
            used |= {name} if agrees(draft, naming.found[name], columns[name], derived) else set()
    meanings = {naming.found[name] for name in used if name in naming.found}
    for name in names:  # the other columns become labels
        if name not in meanings:
            label = label_name(name)
            while label in draft.columns:
                label = f"source_{label}"
            draft.columns[label] = plain(table.column(name))
