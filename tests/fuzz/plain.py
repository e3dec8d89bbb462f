"""What the plain readers share: a small graph, text and numbers as the formats define them, rules of rank tables."""

from __future__ import annotations

import gzip
import math
import re
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fuzz.inputs import require
from kgprobe.graph import KnowledgeGraph

ENTITIES = ["Ada", "Bob", "Çelik", "007", "x y", "\U0001f642"]
RELATIONS = ["knows", "likes"]
TRAIN = [[0, 0, 1], [1, 0, 2], [2, 1, 3], [3, 1, 0], [4, 0, 5], [0, 0, 2]]
VALID = [[1, 1, 4]]
TEST = [[0, 0, 3], [0, 0, 4], [2, 1, 5]]


@cache
def small_graph() -> KnowledgeGraph:
    return KnowledgeGraph.from_triples(
        TRAIN, VALID, TEST, name="small", entity_labels=ENTITIES, relation_labels=RELATIONS
    )


def content(path: Path) -> bytes:
    """The bytes of a file, decompressed if its name ends in .gz."""
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def text_lines(path: Path, errors: str = "strict") -> list[tuple[int, str]]:
    """The lines that are not blank, with their numbers; lines end with \\n, \\r\\n or \\r."""
    lines = re.split(rb"\r\n|\r|\n", content(path).removeprefix(b"\xef\xbb\xbf"))
    texts = [(number, line.decode(errors=errors)) for number, line in enumerate(lines, 1)]
    return [(number, text) for number, text in texts if text.strip()]


def decimal_id(text: str) -> int:
    """An id in decimal digits, perhaps with blanks around it."""
    require(re.fullmatch(r"\s*[0-9]+\s*", text), f"{text!r} is not an id")
    return int(text)


_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|[+-]?(inf|infinity|nan)", re.IGNORECASE)


def number(value: Any) -> float | None:
    """A finite or infinite number in text or of any numeric type; None stays None."""
    if value is None:
        return None
    require(isinstance(value, int | float | str | Decimal), f"{value!r} is not a number")
    require(not isinstance(value, str) or _NUMBER.fullmatch(value), f"{value!r} is not a number")
    return float(value)


def whole(value: Any) -> int | None:
    """A whole number that fits 64 bits, in text or of any numeric type; None stays None."""
    if value is None:
        return None
    exact = Decimal(value) if isinstance(value, str) and number(value) is not None else value
    require(isinstance(exact, int | float | Decimal) and math.isfinite(exact), f"{value!r} is not a whole number")
    require(exact == int(exact) and -(2**63) <= int(exact) < 2**63, f"{value!r} is not a whole number")
    return int(exact)


def defined(values: Sequence[Any]) -> list[Any]:
    """A column with None in place of NaN, which means the same in a column that may be null."""
    return [None if isinstance(value, float) and math.isnan(value) else value for value in values]


def read_parquet(path: Path) -> pa.Table:
    """A Parquet file, read by pyarrow alone; its checksums must hold."""
    file = pq.ParquetFile(path, page_checksum_verification=True)
    table = file.read()
    require(len(table) == file.metadata.num_rows, "rows are missing")
    return table


def whole_columns(path: Path, *names: str) -> list[list[int]]:
    """Columns of integers without nulls."""
    table = read_parquet(path)
    for name in names:
        require(table.column_names.count(name) == 1, f"no single column {name}")
        require(pa.types.is_integer(table.column(name).type), f"{name} does not hold integers")
    columns = [table.column(name).to_pylist() for name in names]
    require(all(value is not None for column in columns for value in column), "a null")
    return columns


def check_ranks(rows: dict[str, list[Any]]) -> None:
    """The rules of a rank table, row by row."""
    seen = set()
    for i in range(len(rows["rank"])):
        row = {name: column[i] for name, column in rows.items()}
        needed = [row[name] for name in ("head", "relation", "tail", "side", "rank", "candidates")]
        require(None not in needed and ("seed" not in row or row["seed"] is not None), "a value is missing")
        rank, candidates, ties, worst = row["rank"], row["candidates"], row.get("ties"), row.get("worst_rank")
        require(1 <= rank <= float(candidates), "the rank is outside 1..candidates")
        require(row["side"] in ("head", "tail"), "the side is unknown")
        require(min(row["head"], row["relation"], row["tail"]) >= 0, "an id is negative")
        if ties is not None:
            require(ties >= 0 and rank - ties / 2 >= 1 and rank + ties / 2 <= float(candidates), "ties do not fit")
        if worst is not None:
            require(rank <= worst <= float(candidates), "worst_rank does not fit")
            require(worst == rank or not ties, "an interval with ties")
        for name in ("entity_popularity", "relation_popularity"):
            require(row.get(name) is None or 0 <= row[name] <= 1, "a popularity is outside 0..1")
        check_sample(row)
        query = tuple(row.get(name) for name in ("head", "relation", "tail", "side", "seed"))
        require(query not in seen, "a query occurs twice")
        seen.add(query)


COUNTS = ("exact_greater", "exact_equal", "sample_size", "sampled_from", "sampled_greater", "sampled_equal")


def check_sample(row: dict[str, Any]) -> None:
    """The rules of a row whose rank is an estimate from a sample of candidates."""
    counts = [row.get(name) for name in COUNTS]
    require(counts.count(None) in (0, len(COUNTS)), "a count of a sample is missing")
    if None in counts:
        return
    greater, equal, size, population, more, same = counts
    require(min(counts) >= 0, "a count is negative")
    require(size <= population, "a sample is larger than what it is drawn from")
    require(more + same <= size, "more hits than the sample has candidates")
    require(greater + equal <= row["candidates"] - 1 - population, "more counted than there are")
    unseen = (more + same / 2) * population / size if size else population / 2
    rank = 1 + greater + equal / 2 + unseen
    require(abs(row["rank"] - rank) <= 1e-6 * rank, "the rank is not the estimate")


def known_answers() -> dict[tuple[str, int, int], set[int]]:
    """The known answers of every query of the small graph: by side, given entity and relation."""
    known: dict[tuple[str, int, int], set[int]] = {}
    for head, relation, tail in [*TRAIN, *VALID, *TEST]:
        known.setdefault(("tail", head, relation), set()).add(tail)
        known.setdefault(("head", tail, relation), set()).add(head)
    return known
