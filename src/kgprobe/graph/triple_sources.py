"""Triples that Python programs hold: lists, arrays and tables of labels, and PyKEEN's datasets; as ids with labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kgprobe.arrays import AnyInts
from kgprobe.errors import DataError, UsageError, shown, spans
from kgprobe.graph.names import Labels, Names, as_labels

TRIPLE = ("head", "relation", "tail")
SPLITS = ("train", "valid", "test")

COLUMN_NAMES = {
    "head": "head h subject subj s source src from head_id head_label head_entity entity1 e1 node1 start",
    "relation": "relation r rel predicate pred p edge edge_type relationship property type relation_id relation_label",
    "tail": "tail t object obj o target tgt dst destination to tail_id tail_label tail_entity entity2 e2 node2 end",
    "label": "label truth sign class y",
    "split": "split fold subset partition set",
}
"""Names under which a column is recognised in tables and in the header lines of files; its own name comes first."""

SPLIT_NAMES = {
    "train": ("train", "training"),
    "valid": ("valid", "validation", "dev", "val"),
    "test": ("test", "testing"),
}
"""Names of the splits in files and tables."""

_COLUMN_OF = {name: column for column, names in COLUMN_NAMES.items() for name in names.split()}
_SPLIT_OF = {name: split for split, names in SPLIT_NAMES.items() for name in names}
_POSITIONS = ["0", "1", "2"]

_LABELS = (
    "give a list of (head, relation, tail) in text, an array [n, 3] of text, or a table with columns head, relation, "
    "tail of text; triples of ids (numbers) are for KnowledgeGraph.from_triples, and numbers that are labels must be "
    "turned into text first"
)


def column_of(name: str) -> str | None:
    """What a column of this name holds: "head", "relation", "tail", "label", "split"; None if it is not known.

    Example:
        >>> column_of("Subject"), column_of("edge type"), column_of("Ada")
        ('head', 'relation', None)
    """
    return _COLUMN_OF.get(name.strip().lstrip("#").lower().replace("-", "_").replace(" ", "_"))


def find_columns(names: Sequence[str], problems: list[str]) -> dict[str, int]:
    """The position of each known column; problems are added to ``problems``.

    Example:
        >>> find_columns(["weight", "source", "target", "relation"], [])
        {'head': 1, 'tail': 2, 'relation': 3}
    """
    found: dict[str, list[int]] = {}
    for i, name in enumerate(names):
        if column := column_of(name):
            found.setdefault(column, []).append(i)
    chosen = {column: [i for i in at if names[i].lower() == column] or at for column, at in found.items()}
    problems += [
        f"{' and '.join(repr(names[i]) for i in at)} may all be the {column}" for column, at in chosen.items() if at[1:]
    ]
    return {column: at[0] for column, at in chosen.items()}


@dataclass(frozen=True, eq=False)
class NumberedTriples:
    """Triples of ids by split, with the labels in id order; None if the source has no labels."""

    splits: Mapping[str, AnyInts]
    num_entities: int
    num_relations: int
    entity_labels: Labels | None
    relation_labels: Labels | None


def number_labels(
    splits: Mapping[str, Mapping[str, pa.Array]], entities: Labels | None = None, relations: Labels | None = None
) -> NumberedTriples:
    """Replace labels by ids, which follow the sorted labels of all splits unless labels in id order are given.

    Args:
        splits: For each split, the dictionary-encoded columns head, relation and tail.
        entities: Labels of the entities in id order, if these are known.
        relations: Labels of the relations in id order.

    Example:
        >>> columns = {name: pa.array([text]).dictionary_encode() for name, text in zip(TRIPLE, "bra", strict=True)}
        >>> number_labels({"train": columns}).splits["train"].tolist()
        [[1, 0, 0]]
    """
    entities = _sorted_labels(splits, "head", "tail") if entities is None else entities
    relations = _sorted_labels(splits, "relation") if relations is None else relations
    of_entities = Names("entity", entities)
    names = {"head": of_entities, "relation": Names("relation", relations), "tail": of_entities}
    numbered = {}
    for split, columns in splits.items():
        triples = np.empty((len(columns["head"]), 3), dtype=np.int32)
        for i, name in enumerate(TRIPLE):
            triples[:, i] = names[name].ids(columns[name].dictionary)[columns[name].indices.to_numpy()]
        numbered[split] = triples
    return NumberedTriples(numbered, len(entities), len(relations), entities, relations)


def _sorted_labels(splits: Mapping[str, Mapping[str, pa.Array]], *columns: str) -> Labels:
    large = pa.large_string()
    used = [table[column].dictionary.cast(large) for table in splits.values() for column in columns]
    labels: Labels = as_labels(pa.chunked_array(used, large).unique().sort())
    return labels


def from_labels(given: Mapping[str, Any]) -> NumberedTriples:
    """The numbered triples of lists, arrays and tables of labels by split, those that are None left out.

    If the training triples alone are given, as a table with a column ``split``, their rows are divided by it.

    Raises:
        DataError: Some of them are not triples of labels; all problems are listed.
    """
    problems: list[str] = []
    there = {split: value for split, value in given.items() if value is not None}
    splits: dict[str, dict[str, pa.Array]] = {}
    for split, value in there.items():
        found: list[str] = []
        columns = _of_table(value, found) if _is_table(value) else _of_rows(value, found)
        if columns is not None and not found:
            parts = _divided(columns, found) if list(there) == ["train"] else _agreeing(split, columns, found)
            splits |= {name: _encoded(part, found) for name, part in parts.items()}
        problems += [f"{split}: {problem}" for problem in found]
    if not there:
        problems.append("no triples are given")
    if problems:
        raise DataError("these are not triples of labels", problems, _LABELS)
    return number_labels(splits)


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping | pa.Table | pa.RecordBatch) or hasattr(value, "__arrow_c_stream__")


def _of_table(value: Any, problems: list[str]) -> dict[str, Any] | None:
    """The columns head, relation and tail of a table, and split if it has one."""
    try:
        table = value if isinstance(value, pa.Table) else pa.table(value)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        problems.append(f"not a table of texts ({str(error).splitlines()[0][:150]})")
        return None
    names = table.column_names
    if names == _POSITIONS:  # columns that were given no names
        return dict(zip(TRIPLE, map(_plain, table.columns), strict=True))
    at = find_columns(names, problems)
    listed = ", ".join(map(repr, names)) or "none"
    problems += [f"no column for the {name}; columns: {listed}" for name in TRIPLE if name not in at]
    return {name: _plain(table.column(i)) for name, i in at.items() if name in (*TRIPLE, "split")}


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of texts in a type that all functions of pyarrow take; polars gives views."""
    return column.cast(pa.large_string()) if str(column.type) == "string_view" else column


def _of_rows(value: Any, problems: list[str]) -> dict[str, Any] | None:
    """The three columns of an array or of a list of triples."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable | np.ndarray):
        problems.append(f"{shown(value)} is neither a list of triples nor a table")
        return None
    if isinstance(value, np.ndarray):
        if value.size and value.shape != (len(value), 3):
            problems.append(f"an array of shape {value.shape}, expected [n, 3]")
            return None
        plain = value if value.dtype.kind == "U" else value.astype(object)
        parts: list[Any] = list(plain.reshape(-1, 3).T)
    else:
        rows = list(value)
        wrong = [i for i, row in enumerate(rows) if type(row) not in _ROWS or len(row) != len(TRIPLE)]
        if wrong:
            listed, example = spans(wrong, most=10), shown(rows[wrong[0]])
            problems.append(f"not (head, relation, tail) but {example} in rows {listed} (counted from 0)")
            return None
        parts = [[row[i] for row in rows] for i in range(len(TRIPLE))]
    columns = {name: _texts(name, part, problems) for name, part in zip(TRIPLE, parts, strict=True)}
    return None if problems else columns


_ROWS = (tuple, list, np.ndarray)


def _texts(name: str, values: Any, problems: list[str]) -> pa.Array | None:
    is_text = isinstance(values, np.ndarray) and values.dtype.kind == "U"
    strange = [] if is_text else [i for i, value in enumerate(values) if type(value) not in (str, np.str_)]
    if strange:
        listed = spans(strange, most=10)
        problems.append(f"{name} is not text but {shown(values[strange[0]])} in rows {listed} (counted from 0)")
        return None
    try:
        return pa.array(np.ascontiguousarray(values) if is_text else values).cast(pa.large_string())
    except (pa.ArrowException, UnicodeEncodeError):
        problems.append(f"{name}: a text has no UTF-8 form")
        return None


def _divided(columns: Mapping[str, Any], problems: list[str]) -> dict[str, Mapping[str, Any]]:
    """The rows of each split of a table; all are training triples if it has no column ``split``."""
    import pyarrow.compute as pc

    if "split" not in columns:
        return {"train": columns}
    own = [value.as_py() for value in columns["split"].unique()]
    unknown = [value for value in own if str(value).lower() not in _SPLIT_OF]
    if unknown:
        listed = ", ".join(shown(value) for value in unknown[:5])
        problems.append(f"the column 'split' has {listed}; expected train, valid or test")
        return {}
    texts = columns["split"].cast(pa.string())
    rows = {split: [name for name in own if _SPLIT_OF[name.lower()] == split] for split in SPLIT_NAMES}
    return {
        split: {column: columns[column].filter(pc.is_in(texts, pa.array(names))) for column in TRIPLE}
        for split, names in rows.items()
        if names
    }


def _agreeing(split: str, columns: Mapping[str, Any], problems: list[str]) -> dict[str, Mapping[str, Any]]:
    """The rows of a table that was given as one split: a column ``split`` must not contradict that."""
    others = set(_divided(columns, problems)) - {split} if "split" in columns else set()
    if others:
        problems.append(
            f"the column 'split' has rows of {', '.join(sorted(others))}: give this table alone, as `train`"
        )
    return {split: columns}


def _encoded(columns: Mapping[str, Any], problems: list[str]) -> dict[str, pa.Array]:
    """Dictionary-encoded columns of labels."""
    import pyarrow.compute as pc

    encoded: dict[str, pa.Array] = {}
    for name in TRIPLE:
        column = columns[name]
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if not any(
            is_text(kind) for is_text in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
        ):
            problems.append(f"the column {name} holds {kind}, expected text")
            continue
        texts = column.cast(pa.large_string())
        texts = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
        missing = pc.fill_null(pc.equal(texts, ""), True).to_numpy(zero_copy_only=False)
        if missing.any():
            listed = spans(np.flatnonzero(missing).tolist(), most=10)
            problems.append(f"the {name} is missing in rows {listed} (counted from 0)")
        encoded[name] = texts.dictionary_encode()
    return encoded


def is_pykeen(value: object) -> bool:
    """Whether an object is a dataset or a triples factory of PyKEEN, which is not imported for that."""
    modules = {kind.__module__ for kind in type(value).__mro__}
    return any(module.startswith(("pykeen.datasets", "pykeen.triples")) for module in modules)


def pykeen_name(source: Any) -> str:
    """The name of a PyKEEN dataset; "graph" for triples that have none.

    Example:
        >>> from pykeen.datasets import Nations
        >>> pykeen_name(Nations())
        'nations'
    """
    about = getattr(source, "metadata", None) or {}
    is_named = hasattr(source, "get_normalized_name") and type(source).__module__ != "pykeen.datasets.base"
    return str(about.get("name") or (source.get_normalized_name() if is_named else "graph"))


def from_pykeen(train: Any, valid: Any = None, test: Any = None) -> NumberedTriples:
    """The triples of a PyKEEN dataset, or of triples factories by split, with PyKEEN's ids.

    Inverse triples, which PyKEEN adds while it trains, are not part of it.

    Raises:
        UsageError: Other objects are given, or other splits beside a dataset.
        DataError: The factories have different ids.
    """
    whole = not hasattr(type(train), "mapped_triples") and not hasattr(train, "mapped_triples")
    given = {"train": train, "valid": valid, "test": test}
    strange = [f"{split} is a {type(v).__name__}" for split, v in given.items() if v is not None and not is_pykeen(v)]
    if is_pykeen(train) and whole and not hasattr(type(train), "training") and not hasattr(train, "training"):
        strange.append(f"train is a {type(train).__name__}, which has no `training` triples (an inductive dataset?)")
    if whole and (valid is not None or test is not None):
        strange.append("a dataset has its own valid and test triples, but others are given too")
    if strange:
        remedy = "give a dataset, or triples factories as `train`, `valid` and `test`"
        raise UsageError("these are not PyKEEN's triples", strange, remedy)
    if whole:
        given = {"train": train.training, "valid": train.validation, "test": train.testing}
    factories = {split: factory for split, factory in given.items() if factory is not None}
    first = factories["train"]
    problems = [
        f"{kind} of {split} have other ids than those of train"
        for split, factory in factories.items()
        for kind, size, ids in (("entities", "num_entities", "entity_to_id"), ("relations", *_RELATIONS))
        if getattr(factory, size) != getattr(first, size) or getattr(factory, ids, None) != getattr(first, ids, None)
    ]
    if problems:
        remedy = "create these triples factories with entity_to_id and relation_to_id of the training factory"
        raise DataError("the ids of PyKEEN's triples do not fit together", problems, remedy)
    sizes = first.num_entities, first.real_num_relations
    labels = [_in_id_order(getattr(first, ids, None), size) for ids, size in zip(_IDS, sizes, strict=True)]
    splits = {split: factory.mapped_triples.cpu().numpy() for split, factory in factories.items()}
    return NumberedTriples(splits, *sizes, *labels)


_IDS = ("entity_to_id", "relation_to_id")
_RELATIONS = ("real_num_relations", "relation_to_id")


def _in_id_order(ids: Mapping[str, int] | None, size: int) -> Labels | None:
    """The labels in id order, null for an id without one."""
    if ids is None:
        return None
    by_id = {int(i): str(label) for label, i in ids.items()}
    return as_labels([by_id.get(i) for i in range(size)])
