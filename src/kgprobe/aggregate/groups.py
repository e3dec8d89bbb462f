"""Groups of queries: by relation, side, popularity, number of candidates or any label column."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from kgprobe.aggregate.weighted_mean import KeyedSums
from kgprobe.arrays import Floats
from kgprobe.errors import DataError, UsageError
from kgprobe.ranks import RankFile, Ranks


class Grouping(ABC):
    """A partition of the queries: a code for every row, and a name for every code."""

    name: str

    @abstractmethod
    def codes(self, ranks: Ranks) -> Floats:
        """The group of each row, as a number that is the same in every batch."""

    @abstractmethod
    def label(self, code: float) -> Any:
        """The name of the group with this code."""

    def learn(self, ranks: Ranks | RankFile) -> None:  # noqa: B027 (most groupings have nothing to learn)
        """Determine the groups from the whole table, where they depend on it."""


@dataclass
class ByColumn(Grouping):
    """One group for each value of a column, canonical or label.

    Example:
        >>> ranks = Ranks.from_columns(
        ...     head=[0, 0], relation=[4, 5], tail=[1, 1], side=["tail"] * 2, rank=[1, 2], candidates=[9, 9]
        ... )
        >>> by = parse_grouping("relation")
        >>> [by.label(code) for code in by.codes(ranks)]
        [4, 5]
    """

    name: str
    labels: dict[float, Any] = field(default_factory=dict)

    def codes(self, ranks: Ranks) -> Floats:
        """An id, or a hash of the value: the same number in every batch and on every machine."""
        name = self.name if self.name in ranks.column_names else _OTHER_NAMES.get(self.name, self.name)
        column = ranks.column(name)
        if name in _IDS:
            codes = ranks.numbers(name)
            self.labels.update((code, int(code)) for code in np.unique(codes).tolist())
            return codes
        if pa.types.is_nested(column.type):
            raise UsageError(f"column '{self.name}' holds {column.type}; rows cannot be grouped by it")
        plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        encoded = plain.combine_chunks().dictionary_encode()
        values = encoded.dictionary.to_pylist()
        hashes = [_hash(str(value)) for value in values]
        names = [value if isinstance(value, int | float | str) else str(value) for value in values]
        self.labels.update(zip([*hashes, _NOT_RECORDED], [*names, None], strict=True))
        which = encoded.indices.fill_null(len(values)).to_numpy()
        return np.asarray(np.array([*hashes, _NOT_RECORDED])[which])

    def label(self, code: float) -> Any:
        return self.labels[code]


_IDS = ("head", "relation", "tail", "seed")
_OTHER_NAMES = {"subject": "head", "predicate": "relation", "object": "tail"}
_NOT_RECORDED = -1.0


def _hash(value: str) -> float:
    digest = hashlib.blake2b(value.encode(), digest_size=6).digest()  # 48 bits: exact in a float64
    return float(int.from_bytes(digest, "big"))


@dataclass
class ByQuantile(Grouping):
    """Quantile bands of a number, with about equally many queries each; equal values are in the same band.

    ``popularity`` is delta(e) * delta(r|e), the popularity of the triple in the paper's weight.
    """

    name: str
    bands: int
    edges: Floats = field(default_factory=lambda: np.empty(0))

    def learn(self, ranks: Ranks | RankFile) -> None:
        """Determine the edges of the bands from the counts of the distinct values."""
        seen = KeyedSums(keys=1, terms=1)
        for batch in ranks.batches():
            seen.add([self._values(batch)], np.ones((1, len(batch))))
        order = np.argsort(seen.keys[0])
        values, cumulative = seen.keys[0][order], np.cumsum(seen.sums[0][order])
        if values.size == 0:
            raise DataError("there is no query to group", remedy="check that the rank file has rows")
        shares = cumulative[-1] * np.arange(self.bands + 1) / self.bands
        at = np.minimum(np.searchsorted(cumulative, shares, side="left"), values.size - 1)
        self.edges = np.concatenate([values[:1], np.unique(values[at[1:-1]]), values[-1:]])

    def _values(self, ranks: Ranks) -> Floats:
        needed = ("entity_popularity", "relation_popularity") if self.name == "popularity" else (self.name,)
        values = np.prod([ranks.numbers(column) for column in needed], axis=0)
        if np.isnan(values).any():
            raise DataError(f"rows without {' or '.join(needed)} cannot be grouped by it", remedy="give `graph`")
        return np.asarray(values)

    def codes(self, ranks: Ranks) -> Floats:
        """The band of each row: above its lower edge, up to its upper edge; the lowest value is in the first."""
        if self.edges.size == 0:
            raise UsageError(
                f"the bands of '{self.name}' are not known yet", remedy="call learn() with the whole table first"
            )
        inner = self.edges[1:-1]
        return np.searchsorted(inner, self._values(ranks), side="left").astype(np.float64)

    def label(self, code: float) -> str:
        """The number and limits of the band, lowest first."""
        low, high = self.edges[int(code)], self.edges[int(code) + 1]
        opening = "[" if code == 0 else "("
        return f"{int(code) + 1}: {opening}{low:.4g}, {high:.4g}]"


_MOST_BANDS = 1_000_000
_QUANTILE = ("popularity", "entity_popularity", "relation_popularity", "candidates", "rank")


def parse_grouping(text: str) -> Grouping:
    """A grouping from its name: ``relation``, ``side``, ``popularity:5``, ``candidates:4`` or a label column.

    Example:
        >>> parse_grouping("popularity:5")
        ByQuantile(name='popularity', bands=5, edges=array([], dtype=float64))
    """
    name, colon, bands = text.strip().partition(":")
    if not colon:
        if name in _QUANTILE:
            raise UsageError(f"'{name}' needs a number of bands", remedy=f"for example {name}:5")
        return ByColumn(name)
    if name not in _QUANTILE:
        raise UsageError(f"'{name}' cannot be cut into bands", [f"columns that can: {', '.join(_QUANTILE)}"])
    if not bands.isdecimal() or len(bands) > len(str(_MOST_BANDS)) or not 1 <= int(bands) <= _MOST_BANDS:
        shown = bands if len(bands) <= 20 else f"{bands[:20]}..."
        problem = f"there may be 1 to {_MOST_BANDS:,}"
        raise UsageError(f"'{shown}' is not a number of bands", [problem], f"for example {name}:5")
    return ByQuantile(name, int(bands))


def parse_groupings(by: str | Iterable[str]) -> list[Grouping]:
    """Groupings from a text or a list of texts, each of which may hold several separated by commas."""
    texts = [by] if isinstance(by, str) or not isinstance(by, Iterable) else list(by)
    if wrong := [type(text).__name__ for text in texts if not isinstance(text, str)]:
        raise UsageError(f"`by` holds {', '.join(wrong)}, not names", remedy="for example by=['relation', 'side']")
    return [parse_grouping(part) for text in texts for part in text.split(",") if part.strip()]
