"""Graph directories of text files: labelled triples (TSV, CSV, spaces), and OpenKE's files of ids."""

from __future__ import annotations

import csv
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from kgprobe.arrays import AnyInts, Flags
from kgprobe.errors import DataError
from kgprobe.graph.graph_directory import DICTIONARIES, ENDINGS, NEGATIVES
from kgprobe.graph.knowledge_graph import KnowledgeGraph
from kgprobe.graph.names import Labels, Names
from kgprobe.graph.text_files import (
    Columns,
    KnownNames,
    Layout,
    first_lines,
    read_dictionary,
    read_text,
    whole_number,
)
from kgprobe.graph.triple_sources import SPLIT_NAMES, SPLITS, TRIPLE, find_columns, number_labels


def _at_tabs(line: str) -> list[str]:
    return line.split("\t")


def _at_spaces(line: str) -> list[str]:
    return [line] if "\t" in line else [text for text in line.split(" ") if text]


def _csv_fields(delimiter: str) -> Callable[[str], list[str]]:
    def fields(line: str) -> list[str]:
        try:
            return next(csv.reader([line], delimiter=delimiter, strict=True))
        except csv.Error:  # quotes that are not closed
            return [line]

    return fields


_TABS = Layout({}, "<TAB>", "\t", _at_tabs)
_SPACES = Layout({}, " ", " ", _at_spaces, careful=re.compile(rb"\t"))
_CSV = tuple(Layout({}, delimiter, delimiter, _csv_fields(delimiter), careful=re.compile(rb'"')) for delimiter in ",;")
_SNIFFED = 100

LABEL = "label"
"""The fourth column of a file of triples: whether a triple is true."""

_TRUE, _FALSE = "1", ("-1", "0")


@cache
def _truth_labels() -> Names:
    return Names(f"label ({_TRUE} or {_FALSE[0]})", pa.array([_TRUE, *_FALSE]))


_HOW = (
    "each line must be head, relation, tail, separated by tabs, commas (.csv) or spaces; a fourth column is 1 for "
    "true triples and -1 for false ones (times and weights are not read)"
)


@dataclass(frozen=True, eq=False)
class TripleFile:
    """The triples of a file: dictionary-encoded columns head, relation and tail, and which triples are negatives."""

    columns: Columns
    negative: Flags

    def as_negatives(self) -> TripleFile:
        """The triples of a file that holds only negatives."""
        return replace(self, negative=np.ones(len(self.negative), dtype=bool))

    def joined(self, other: TripleFile) -> TripleFile:
        """The triples of two files of one split."""
        both = {name: pa.chunked_array([self.columns[name], other.columns[name]]) for name in TRIPLE}
        columns = {name: column.unify_dictionaries().combine_chunks() for name, column in both.items()}
        return TripleFile(columns, np.append(self.negative, other.negative))

    def part(self, *, negative: bool) -> Columns:
        """The columns of the negatives, or of all other triples."""
        if not self.negative.any():
            return {name: column[: 0 if negative else None] for name, column in self.columns.items()}
        rows = pa.array(self.negative == negative)
        return {name: column.filter(rows) for name, column in self.columns.items()}


def read_triple_file(path: Path, known: Mapping[str, Names], problems: list[str]) -> TripleFile | None:
    """Read labelled triples; or None, with every problem added to ``problems``.

    The separator is that of most of the first lines. A header line is skipped, and its order of columns is followed; so
    is the order head, tail, relation if it is the only one that the known names admit. Both are said in a warning.

    Args:
        path: The file.
        known: The names that the columns head, relation and tail may hold; any name in a column that is not listed.
        problems: Collects the problems.
    """
    lines = first_lines(path, _SNIFFED)
    separator = _separator(path, lines)
    first = separator.split(lines[0][1]) if lines else []
    header = _header(separator, lines[0][0], first) if lines else None
    if header is not None:
        found: list[str] = []
        words = {name: text for name, text in zip(header.columns, first, strict=True) if name in TRIPLE}
        read = _read(path, header, known, found)
        place = f"{path.name}, line {header.skip}"
        if len(first) > len(TRIPLE) or not _is_triple(words, read, known):
            columns = ", ".join(name for name in header.columns if name not in header.ignored)
            others = [text or "one without a name" for text in first if text not in words.values()]
            more = f"; not read: {', '.join(others)}" if header.ignored else ""
            warnings.warn(f"{place} is a header, not a triple: columns {columns}{more}", stacklevel=2)
            problems += found
            return read
        if not known:
            warnings.warn(
                f"{place} looks like a header, but its words occur below: it is read as a triple", stacklevel=2
            )
    labelled = 2 * sum(len(separator.split(text)) == 4 for _, text in lines) > len(lines)
    return _read(path, _layout(separator, [*TRIPLE, LABEL] if labelled else TRIPLE), known, problems)


def _separator(path: Path, lines: Sequence[tuple[int, str]]) -> Layout:
    """The separator that cuts most of these lines into at least three fields; the usual one if none does."""
    usual = (*_CSV, _TABS) if ".csv" in path.suffixes else (_TABS, _SPACES, *_CSV)
    cut = [sum(len(separator.split(text)) >= len(TRIPLE) for _, text in lines) for separator in usual]
    return usual[int(np.argmax(cut))]


def _layout(separator: Layout, names: Sequence[str], skip: int = 0) -> Layout:
    """The layout of lines with these columns; others than those of a triple and its label are ignored."""
    words = [f"{_TRUE} or {_FALSE[0]}" if name == LABEL else name for name in names]
    return replace(
        separator,
        columns=dict.fromkeys(names, False),
        described=separator.described.join(words),
        ignored=frozenset(names) - {*TRIPLE, LABEL},
        skip=skip,
    )


def _header(separator: Layout, number: int, first: Sequence[str]) -> Layout | None:
    """The layout that a first line of names gives; None if it cannot be a header."""
    ambiguous: list[str] = []
    at = find_columns(first, ambiguous)
    others = [text for i, text in enumerate(first) if i not in at.values()]
    if ambiguous or not set(TRIPLE) <= set(at) or any(text in (_TRUE, *_FALSE) for text in others):
        return None
    names = {i: name for name, i in at.items() if name in (*TRIPLE, LABEL)}
    return _layout(separator, [names.get(i, f"column {i + 1}") for i in range(len(first))], skip=number)


def _is_triple(words: Mapping[str, str], read: TripleFile | None, known: Mapping[str, Names]) -> bool:
    """Whether a first line that may be a header is a triple: its words are known names, or occur in other lines."""
    import pyarrow.compute as pc

    if known:
        return not any(known[name].problem(text) for name, text in words.items() if name in known)
    ends = {"head": ("head", "tail"), "tail": ("head", "tail")}
    return read is not None and any(
        pc.index(read.columns[column].dictionary, text).as_py() >= 0
        for name, text in words.items()
        for column in ends.get(name, (name,))
    )


def _read(path: Path, layout: Layout, known: Mapping[str, Names], problems: list[str]) -> TripleFile | None:
    found: list[str] = []
    columns = read_text(path, layout, _rule(layout, known), found)
    if columns is None and len(known) == len(TRIPLE) and not layout.skip:
        swap = {"relation": "tail", "tail": "relation"}
        swapped = replace(layout, columns={swap.get(name, name): False for name in layout.columns})
        columns = read_text(path, swapped, _rule(swapped, known), [])
        if columns is not None:
            warnings.warn(f"{path.name}: the columns are head, tail, relation, as the dictionaries show", stacklevel=2)
    if columns is None:
        problems += found
        return None
    labels = columns.get(LABEL)
    negative = np.zeros(len(columns["head"]), dtype=bool)
    if labels is not None:
        negative = (_truth_labels().ids(labels.dictionary) > 0)[labels.indices.to_numpy()]
    return TripleFile({name: columns[name] for name in TRIPLE}, negative)


def _rule(layout: Layout, known: Mapping[str, Names]) -> KnownNames:
    labels = {LABEL: _truth_labels()} if LABEL in layout.columns else {}
    return KnownNames({**known, **labels}, tuple(layout.columns))


def split_files(directory: Path, end: str = "") -> dict[str, list[Path]]:
    """The files that may hold each split; with an end, the files of its negatives."""
    named = {
        split: [directory / f"{stem}{end}{ending}" for stem in stems for ending in ENDINGS]
        for split, stems in SPLIT_NAMES.items()
    }
    return {split: [path for path in paths if path.exists()] for split, paths in named.items()}


def is_labelled(directory: Path) -> bool:
    """Whether a directory has labelled triples."""
    return any(split_files(directory).values())


def read_labelled(directory: Path, name: str) -> KnowledgeGraph:
    """Read train, valid (or dev) and test (.txt, .tsv or .csv, optionally .gz), and dictionaries of ids if they exist.

    Without a dictionary, ids follow the sorted labels of all splits. Negatives are the lines with the label -1, and the
    files valid_negatives and test_negatives.
    """
    problems: list[str] = []
    labels = {kind: _read_ids(directory, kind, problems) for kind in DICTIONARIES}
    known = {
        column: Names(f"label of {found[0]}", found[1])
        for column, kind in (("head", "entities"), ("relation", "relations"), ("tail", "entities"))
        if (found := labels[kind]) is not None
    }
    files = split_files(directory)
    if not files["train"]:
        problems.append("no training triples: no train.txt, train.tsv or train.csv (or .gz)")
    triples: dict[str, TripleFile] = {}
    for end in ("", NEGATIVES):
        for split, paths in split_files(directory, end).items():
            if len(paths) > 1:
                problems.append(f"several files for one split: {', '.join(path.name for path in paths)}")
            read = read_triple_file(paths[0], known, problems) if paths else None
            if read is not None:
                read = read.as_negatives() if end else read
                triples[split] = triples[split].joined(read) if split in triples else read
    if problems:
        raise DataError(
            f"{directory}: not a graph of labelled triples",
            problems,
            f"{_HOW}; entities.dict and relations.dict (lines of id<TAB>label), or entity2id.txt and relation2id.txt "
            "(lines of label<TAB>id), if they exist, must list all labels",
        )
    entities, relations = (None if found is None else found[1] for found in labels.values())
    positives = {split: part.part(negative=False) for split, part in triples.items()}
    negatives = {split + NEGATIVES: part.part(negative=True) for split, part in triples.items() if part.negative.any()}
    numbered = number_labels({**positives, **negatives}, entities, relations)
    return KnowledgeGraph(
        name=name,
        num_entities=numbered.num_entities,
        num_relations=numbered.num_relations,
        splits={split: numbered.splits[split] for split in positives if files[split]},
        entity_labels=numbered.entity_labels,
        relation_labels=numbered.relation_labels,
        negative_splits={name.removesuffix(NEGATIVES): numbered.splits[name] for name in negatives},
    )


_ID_FIRST = Layout({"id": True, "label": False}, "id<TAB>label", "\t", _at_tabs)
_LIST = Layout({"label": False}, "label", "\t", lambda line: [line])


def _read_ids(directory: Path, kind: str, problems: list[str]) -> tuple[str, Labels] | None:
    """The labels in id order and the file that gives them; None if there is none, or it has problems."""
    for path in (directory / file for file in DICTIONARIES[kind]):
        layout = _dictionary_layout(path) if path.exists() else None
        if layout is not None:
            labels = _read_list(path, problems) if layout is _LIST else read_dictionary(path, layout, problems)
            return None if labels is None else (path.name, labels)
    return None


def _dictionary_layout(path: Path) -> Layout | None:
    """The layout of a dictionary by its first lines; None for a file called entities.txt that is something else."""
    lines = [text for _, text in first_lines(path, 2)]
    fields = [_at_last_gap(line) for line in lines]
    counted = len(lines) == 2 and len(fields[0]) == 1 and len(fields[1]) == 2 and whole_number(lines[0]) is not None
    numbers = [whole_number(text) is not None for text in (fields[-1] if fields else [])]
    usual = _ID_FIRST if path.suffix == ".dict" else _LABEL_FIRST
    if path.name in (DICTIONARIES["entities"][-1], DICTIONARIES["relations"][-1]) and not any(
        numbers[1:] + numbers[:-1]
    ):
        return _LIST if len(numbers) == 1 else None
    if sum(numbers) == 1 and len(numbers) == 2:
        usual = _ID_FIRST if numbers[0] else _LABEL_FIRST
    return replace(usual, counted=counted)


def _read_list(path: Path, problems: list[str]) -> Labels | None:
    """Labels, one per line; the first has id 0."""
    columns = read_text(path, _LIST, None, problems)
    if columns is None:
        return None
    column = columns["label"]
    if len(column.dictionary) < len(column):
        again = np.setdiff1d(np.arange(len(column)), np.unique(column.indices.to_numpy(), return_index=True)[1])
        text = column[int(again[0])].as_py()
        problems.append(f"{path.name}: {len(again):,} labels are repeated, such as {text[:40]!r}")
        return None
    return column.dictionary_decode()


def _at_last_gap(line: str) -> list[str]:
    """Label and id; only the last gap separates them, since a label may contain spaces."""
    return line.rsplit("\t" if "\t" in line else None, 1)


# The relation is the last column of these files, not the middle one.
_OPENKE_TRIPLES = Layout(
    {"head": True, "tail": True, "relation": True}, "head tail relation (ids)", " \t", str.split, counted=True
)

_LABEL_FIRST = Layout({"label": False, "id": True}, "label<TAB>id", "\t", _at_last_gap)
OPENKE_DICTIONARY = replace(_LABEL_FIRST, counted=True)


def is_openke(directory: Path) -> bool:
    """Whether a directory has OpenKE's files."""
    return any((directory / f"{split}2id.txt").exists() for split in SPLITS)


def read_openke(directory: Path, name: str) -> KnowledgeGraph:
    """Read train2id.txt, valid2id.txt, test2id.txt, entity2id.txt and relation2id.txt."""
    needed = ("train2id.txt", "entity2id.txt", "relation2id.txt")
    problems = [f"no {file}" for file in needed if not (directory / file).exists()]
    entities, relations = (
        read_dictionary(path, OPENKE_DICTIONARY, problems) if path.exists() else None
        for path in (directory / "entity2id.txt", directory / "relation2id.txt")
    )
    known = {"head": entities, "tail": entities, "relation": relations}
    limits = {column: len(labels) for column, labels in known.items() if labels is not None}
    splits: dict[str, AnyInts] = {}
    for split in SPLITS:
        path = directory / f"{split}2id.txt"
        columns = read_text(path, replace(_OPENKE_TRIPLES, limits=limits), None, problems) if path.exists() else None
        if columns is not None:
            splits[split] = np.column_stack([columns[c].to_numpy() for c in ("head", "relation", "tail")])
    if problems or entities is None or relations is None:
        raise DataError(
            f"{directory}: not a graph in OpenKE's format",
            problems,
            f"each file starts with its number of lines; triples are {_OPENKE_TRIPLES.described}, "
            f"dictionaries {OPENKE_DICTIONARY.described}",
        )
    return KnowledgeGraph(
        name=name,
        num_entities=len(entities),
        num_relations=len(relations),
        splits=splits,
        entity_labels=entities,
        relation_labels=relations,
    )
