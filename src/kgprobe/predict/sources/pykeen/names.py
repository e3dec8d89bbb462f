"""Names of a model's entities and relations in the files that PyKEEN writes with its training triples."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from pathlib import Path

from kgprobe.errors import DataError
from kgprobe.files import replacing
from kgprobe.graph.readers.lines import UNREADABLE, Complaints, whole_number
from kgprobe.predict.sources.pykeen.fit import ModelNames

FOLDER = "training_triples"
_HEADER = ["id", "label"]


def read_names(directory: Path) -> ModelNames | None:
    """The names in a saved folder, if there are any.

    Raises:
        DataError: They cannot be used; every bad line is named.
    """
    files = [directory / FOLDER / f"{kind}_to_id.tsv.gz" for kind in ("entity", "relation")]
    if not any(file.exists() for file in files):
        return None
    problems: list[str] = []
    entities, relations = (_read(file, problems) for file in files)
    if problems:
        raise DataError(
            f"{directory / FOLDER}: the names of entities and relations cannot be used",
            problems,
            "a file of names is a gzip of lines id<TAB>label, after a line with these two words, as PyKEEN writes it",
        )
    return ModelNames(entities, relations)


def write_names(directory: Path, names: ModelNames) -> None:
    """Write names as PyKEEN does."""
    for kind, some in (("entity", names.entities), ("relation", names.relations)):
        with (
            replacing(directory / FOLDER / f"{kind}_to_id.tsv.gz") as temporary,
            gzip.open(temporary, "wt", encoding="utf-8", newline="") as file,
        ):
            lines = csv.writer(file, delimiter="\t", lineterminator="\n")
            lines.writerow(_HEADER)
            lines.writerows(enumerate(some))


def _read(path: Path, problems: list[str]) -> Sequence[str]:
    complaints = Complaints(path.name)
    names: dict[int, str] = {}
    known: set[str] = set()
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            lines = csv.reader(file, delimiter="\t")
            if next(lines, None) != _HEADER:
                complaints.add(1, "expected the words id and label", "")
            for fields in lines:
                wrong = _wrong(fields, names, known)
                if wrong:
                    complaints.add(lines.line_num, wrong, "\t".join(fields))
                else:
                    names[int(fields[0])] = fields[1]
                    known.add(fields[1])
    except (*UNREADABLE, UnicodeDecodeError, csv.Error) as error:
        problems.append(f"{path.name}: cannot be read ({error})")
        return []
    problems += complaints.lines()
    missing = sorted(set(range(len(names))) - names.keys())
    if missing and not complaints.lines():
        problems.append(f"{path.name}: {len(names):,} names, but no id {missing[0]}")
    return [names[i] for i in sorted(names)]


def _wrong(fields: list[str], names: dict[int, str], known: set[str]) -> str | None:
    if len(fields) != 2:
        return f"{len(fields)} fields, expected 2"
    number = whole_number(fields[0])
    if number is None:
        return "the id is no whole number"
    if number in names:
        return "the id was there before"
    return "the label was there before" if fields[1] in known else None
