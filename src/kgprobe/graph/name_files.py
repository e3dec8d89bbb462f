"""Files of names for people: TSV, CSV, JSON, JSON Lines, Parquet, WordNet's definitions."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from kgprobe.arrays import AnyInts
from kgprobe.bounded_files import UNREADABLE, bounded_lines, disguise, open_bytes, parse_json, read_bounded
from kgprobe.errors import DataError, shown
from kgprobe.graph.text_files import Complaints
from kgprobe.parquet_files import open_parquet

ID_COLUMNS = ("id", "entity", "relation", "entity_id", "relation_id", "mid", "qid", "key")
"""Columns that say what is named, by label or by id; so does "label" where another column has the name."""

NAME_COLUMNS = ("name", "title", "label", "text")
"""Columns with the name, in order of preference."""

RECOGNISED = (
    "names.*",
    "entity_names.*",
    "relation_names.*",
    "entities.json",
    "relations.json",
    "entity2name*",
    "relation2name*",
    "*mid2name*",
    "*entity2text[.-]*",
    "*relation2text[.-]*",
    "all_entity_info.*",
    "all_relation_info.*",
    "*wordnet*definitions.*",
    "entity2wikidata.json",
    "entity_strings.del",
    "relation_strings.del",
)
"""Files of a graph directory that are read as names, in order of preference."""

_ENDINGS = (".txt", ".tsv", ".csv", ".json", ".jsonl", ".parquet", ".del")
_REMEDY = "each line must be id<TAB>name, with or without a header; or give CSV, Parquet, or JSON such as {id: name}"
_TEXT = pa.large_string()


@dataclass(frozen=True, eq=False)
class NameTable:
    """Names as a source gives them, not matched with a graph.

    Attributes:
        source: The file, for messages.
        readings: Pairs of columns that may be (what is named, its name). A file without a header has two of them,
            because the name may come first. Names are in the notation of the file, see `cleaned`.
    """

    source: str
    readings: Sequence[tuple[pa.Array, pa.Array]]


def recognised_files(directory: Path) -> list[Path]:
    """The files of a directory that are read as names, the preferred ones first.

    Example:
        >>> recognised_files(Path("no such directory"))
        []
    """
    try:
        files = sorted(path for path in directory.iterdir() if _ending(path) in _ENDINGS and path.is_file())
    except OSError:
        return []
    return [path for pattern in RECOGNISED for path in files if fnmatch(path.name.lower(), pattern)]


def _ending(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix


def names_of(names: Mapping[Any, Any]) -> NameTable:
    rows = [(_key(own), _text(name)) for own, name in names.items()]
    bad = [f"{shown(own)}: {shown(name)} is no name" for own, name in names.items() if not _is_name(name)]
    bad += [f"{shown(own)} is neither a label nor an id" for own, row in zip(names, rows, strict=True) if not row[0]]
    if bad:
        raise DataError("the mapping of names is invalid", bad[:20], "map labels or ids to texts")
    return NameTable("the mapping of names", [_reading(*_columns(rows, 2))])


def read_names(path: Path) -> NameTable:
    """Read a file of names in any known format.

    Raises:
        DataError: It cannot be read; with all bad lines.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "relations.json"
        >>> _ = file.write_text('{"P27": {"label": "country of citizenship", "description": "..."}}')
        >>> [(ids.to_pylist(), names.to_pylist()) for ids, names in read_names(file).readings]
        [(['P27'], ['country of citizenship'])]
    """
    read = {".parquet": _read_parquet, ".json": _read_json, ".jsonl": _read_json_lines}.get(_ending(path), _read_text)
    problems: list[str] = []
    try:
        if read is not _read_parquet and (kind := disguise(path)):
            raise DataError(f"{path}: not a file of names", [f"it is {kind}"], _REMEDY)
        readings = read(path, problems)
    except UNREADABLE as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"{path}: cannot be read", [reason], "give a file of names") from None
    if problems:
        raise DataError(f"{path}: not a file of names", problems, _REMEDY)
    return NameTable(str(path), readings)


_Readings: TypeAlias = list[tuple[pa.Array, pa.Array]]


def _read_text(path: Path, problems: list[str]) -> _Readings:
    """Lines of fields between tabs, or CSV if the first line has no tab but a comma."""
    complaints = Complaints(path.name)
    numbers, lines = _lines(path, complaints)
    first = lines[0].as_py() if len(lines) else ""
    at_commas = "\t" not in first and "," in first
    titles = _csv_fields(first) if at_commas else first.split("\t")
    header = _header(titles)
    if header is None:
        needed = min(len(titles), 2)
    else:
        numbers, lines = numbers[1:], lines[1:]
        needed = 1 + max((max(pair) for pair in header), default=0)
    fields = (_split_csv if at_commas else _split_at_tabs)(lines, numbers, needed, complaints)
    if not first:
        complaints.shown.append(f"{path.name}: empty")
    problems += complaints.lines()
    if problems:
        return []
    columns = [_element(fields, i) for i in range(needed)]
    if needed == 1:  # ids alone, which are readable by themselves
        return [_reading(columns[0], pa.nulls(len(columns[0]), _TEXT))]
    return [_reading(columns[own], columns[name]) for own, name in header or [(0, 1), (1, 0)]]


def _lines(path: Path, complaints: Complaints) -> tuple[AnyInts, pa.Array]:
    """The lines that are not blank, with their numbers; those that are not UTF-8 are left out with a complaint."""
    import pyarrow.compute as pc

    with open_bytes(path) as file:
        raw = list(bounded_lines(file))
    if raw:
        raw[0] = raw[0].removeprefix(b"\xef\xbb\xbf")
    numbers = np.arange(1, len(raw) + 1)
    try:
        lines = pa.array(raw, pa.large_binary()).cast(_TEXT)
    except pa.ArrowInvalid:
        lines = pa.array([_decoded(line, number, complaints) for number, line in enumerate(raw, 1)], _TEXT)
    kept = pc.fill_null(pc.not_equal(pc.utf8_trim_whitespace(lines), ""), False)
    return numbers[kept.to_numpy(zero_copy_only=False)], lines.filter(kept)


def _decoded(line: bytes, number: int, complaints: Complaints) -> str | None:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        problem = f"not UTF-8 (byte {error.start + 1} is 0x{line[error.start]:02x})"
        complaints.add(number, problem, line.decode("utf-8", "backslashreplace"))
        return None


def _split_at_tabs(lines: pa.Array, numbers: AnyInts, needed: int, complaints: Complaints) -> pa.Array:
    """The fields of each line; lines with fewer than ``needed`` of them, or without an id, are complained about."""
    import pyarrow.compute as pc

    fields = pc.split_pattern(lines, "\t")
    counts = pc.list_value_length(fields).to_numpy(zero_copy_only=False)
    blank = pc.equal(pc.utf8_trim_whitespace(pc.list_element(fields, 0)), "").to_numpy(zero_copy_only=False)
    bad = (counts < needed) | blank
    for row in np.flatnonzero(bad).tolist():
        _complain(complaints, int(numbers[row]), int(counts[row]), needed, lines[row].as_py())
    return fields.filter(pa.array(~bad))


def _split_csv(lines: pa.Array, numbers: AnyInts, needed: int, complaints: Complaints) -> pa.Array:
    """The fields of each record, which may hold commas and line breaks inside quotes."""
    texts = lines.to_pylist()
    reader = csv.reader((f"{line}\n" for line in texts), strict=True)
    rows: list[list[str]] = []
    try:
        for fields in reader:
            if len(fields) < needed or not fields[0].strip():
                place = reader.line_num - 1
                _complain(complaints, int(numbers[place]), len(fields), needed, texts[place])
            else:
                rows.append(fields)
    except csv.Error as error:
        place = min(reader.line_num, len(texts)) - 1
        complaints.add(int(numbers[place]), f"not CSV ({error})", texts[place])
    return pa.array(rows, pa.large_list(_TEXT))


def _csv_fields(line: str) -> list[str]:
    try:
        return next(csv.reader([line]), [])
    except csv.Error:  # a field that is too long
        return line.split(",")


def _complain(complaints: Complaints, number: int, count: int, needed: int, text: str) -> None:
    problem = "no id" if count >= needed else f"{count} field{'s' * (count != 1)}, expected at least {needed}"
    complaints.add(number, problem, text)


def _element(fields: pa.Array, index: int) -> pa.Array:
    import pyarrow.compute as pc

    return pc.list_element(fields, index).cast(_TEXT)


def _header(fields: Sequence[str]) -> list[tuple[int, int]] | None:
    """The places of what is named and its name by a header line, with alternatives; None if it is no header.

    Example:
        >>> _header(["id", "name", "type"]), _header(["id"]), _header(["Q1860", "English"])
        ([(0, 1)], [], None)
    """
    titles = [field.strip().lower() for field in fields]
    name = next((titles.index(title) for title in NAME_COLUMNS if title in titles), None)
    keys = [titles.index(title) for title in (*ID_COLUMNS, "label") if title in titles]
    if name is None:
        return [] if len(titles) == 1 and titles[0] in ID_COLUMNS else None
    return [(key, name) for key in keys if key != name] or None


def _read_parquet(path: Path, problems: list[str]) -> _Readings:
    try:
        table = open_parquet(path).read()
    except DataError as error:
        problems += error.problems or [error.title]
        return []
    pairs = _header(table.column_names)
    if not pairs:
        problems.append(
            f"{path.name}: no columns of ids ({', '.join(ID_COLUMNS[:3])}, ...) and names ({', '.join(NAME_COLUMNS)}); "
            f"columns: {', '.join(table.column_names) or 'none'}"
        )
        return []
    texts = {}
    for place in sorted({place for pair in pairs for place in pair}):
        title, column, is_name = table.column_names[place], table.column(place), place == pairs[0][1]
        if (count := table.column_names.count(title)) > 1:
            problems.append(f"{path.name}: column {title!r} occurs {count} times")
        elif _is_text(column.type) or (pa.types.is_integer(column.type) and not is_name):
            texts[place] = column.cast(_TEXT).combine_chunks()
        else:
            expected = "text" if is_name else "labels or whole numbers"
            problems.append(f"{path.name}: column {title!r} holds {column.type}, expected {expected}")
    return [] if problems else [_reading(texts[own], texts[name]) for own, name in pairs]


def _is_text(kind: pa.DataType) -> bool:
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(value) or pa.types.is_large_string(value) or pa.types.is_null(value))


def _read_json(path: Path, problems: list[str]) -> _Readings:
    """An object {id: name} or {id: {"label": name, ...}}, or a list of records with columns such as id and name."""
    try:
        content = parse_json(read_bounded(path))
    except (ValueError, RecursionError) as error:
        problems.append(f"{path.name}: not JSON ({str(error).splitlines()[0][:100]})")
        return []
    if isinstance(content, list):
        return _of_records(path, list(enumerate(content, 1)), "record", problems)
    if not isinstance(content, dict):
        problems.append(f"{path.name}: {shown(content)}, expected an object or a list")
        return []
    rows = [(own.strip(), _name_of(value)) for own, value in content.items()]
    bad = [f"{path.name}, {shown(own)}: {_unnamed(value)}" for own, value in content.items() if not _names(value)]
    problems += bad[:20] + ([f"{path.name}: {len(bad) - 20:,} more entries without a name"] if len(bad) > 20 else [])
    return [] if problems else [_reading(*_columns(rows, 2))]


def _read_json_lines(path: Path, problems: list[str]) -> _Readings:
    complaints = Complaints(path.name)
    numbers, lines = _lines(path, complaints)
    records = []
    for number, line in zip(numbers.tolist(), lines.to_pylist(), strict=True):
        try:
            records.append((number, parse_json(line)))
        except (ValueError, RecursionError) as error:
            complaints.add(number, f"not JSON ({str(error).splitlines()[0][:60]})", line)
    problems += complaints.lines()
    return [] if problems else _of_records(path, records, "line", problems)


def _of_records(path: Path, records: list[tuple[int, Any]], unit: str, problems: list[str]) -> _Readings:
    """The readings of JSON objects; the first of them says which columns there are."""
    bad = [(i, record) for i, record in records if not isinstance(record, dict)]
    titles = list(records[0][1]) if records and not bad else []
    pairs = _header(titles)
    if not bad and not pairs:
        problems.append(
            f"{path.name}: no records with an id ({', '.join(ID_COLUMNS[:3])}, ...) and a name "
            f"({', '.join(NAME_COLUMNS)}); fields: {', '.join(map(str, titles)) or 'none'}"
        )
        return []
    readings = []
    for own, name in pairs or []:
        values = [(i, record.get(titles[own]), record.get(titles[name])) for i, record in records]
        bad += [(i, [key, text]) for i, key, text in values if not _key(key) or not _is_name(text)]
        readings.append([(_key(key), _text(text)) for _, key, text in values])
    problems += [f"{path.name}, {unit} {i}: {shown(value)} is no id with a name" for i, value in bad[:20]]
    problems += [f"{path.name}: {len(bad) - 20:,} more of them"] if len(bad) > 20 else []
    return [] if problems else [_reading(*_columns(rows, 2)) for rows in readings]


def _name_of(value: Any) -> str | None:
    if isinstance(value, dict):
        lower = {title.lower(): own for title, own in value.items()}
        return next((_text(lower[title]) for title in NAME_COLUMNS if _text(lower.get(title))), None)
    return _text(value)


def _names(value: Any) -> bool:
    """Whether a JSON value gives a name, or says that there is none."""
    return any(title.lower() in NAME_COLUMNS for title in value) if isinstance(value, dict) else _is_name(value)


def _unnamed(value: Any) -> str:
    if isinstance(value, dict):
        return f"no {' or '.join(NAME_COLUMNS)} among {shown(list(value))}"
    return "a list (of types?), expected a name" if isinstance(value, list) else f"{shown(value)} is no name"


def _is_name(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _key(value: Any) -> str:
    """A label, or an id as text; empty for anything else."""
    is_id = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return value.strip() if isinstance(value, str) else str(value) if is_id and -1 < value < 2**63 else ""


def _columns(rows: Sequence[tuple[str | None, ...]], count: int) -> list[pa.Array]:
    return [pa.array([row[i] for row in rows], _TEXT) for i in range(count)]


def _reading(keys: pa.Array, names: pa.Array) -> tuple[pa.Array, pa.Array]:
    import pyarrow.compute as pc

    return pc.utf8_trim_whitespace(keys), pc.utf8_trim_whitespace(names)


_SYNSET = r"^__(.+)_[A-Z]+_\d+$"


def cleaned(names: pa.Array) -> pa.Array:
    """Names without a notation that the whole file uses: "name -- definition", "__name_NN_1", underscores for spaces.

    Example:
        >>> cleaned(pa.array(["stool -- solid excretory product", "sea lion -- seal"])).to_pylist()
        ['stool', 'sea lion']
        >>> cleaned(pa.array(["__sea_lion_NN_1", "__stool_NN_2"])).to_pylist()
        ['sea lion', 'stool']
        >>> cleaned(pa.array(["Henry_V", ""])).to_pylist()
        ['Henry V', None]
    """
    import pyarrow.compute as pc

    names = pc.if_else(pc.equal(names, ""), pa.scalar(None, names.type), names)
    if not pc.all(pc.is_null(names)).as_py():
        if pc.all(pc.match_substring(names, " -- ")).as_py():
            names = pc.replace_substring_regex(names, "(?s) -- .*", "", max_replacements=1)
        if pc.all(pc.match_substring_regex(names, _SYNSET)).as_py():
            names = pc.replace_substring_regex(names, _SYNSET, r"\1")
        if not pc.any(pc.match_substring(names, " ")).as_py():
            names = pc.replace_substring(names, "_", " ")
    return names
