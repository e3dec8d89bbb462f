"""What grounding finds: rows, their candidates, and the rules that lead to each, as nested compressed rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kgprobe.models.rules.matrices import Matrix


@dataclass(frozen=True, eq=False)
class Grounding:
    """Row i has the candidates ``candidate[candidates_at[i]:candidates_at[i + 1]]``, each one a pair of its own.

    Pair j is reached by the rules ``rule[rules_at[j]:rules_at[j + 1]]``, along ``count`` paths each.

    Attributes:
        candidates_at: Where the candidates of each row begin: int64 [rows + 1].
        candidate: Entities, ascending within a row: int32 [pairs].
        rules_at: Where the rules of each pair begin: int64 [pairs + 1].
        rule: Index among the rules that were grounded, ascending within a pair: int32 [nnz].
        count: Number of paths, never 0: float32 [nnz].

    Example:
        >>> nothing = Grounding.stacked([])
        >>> nothing.rows, len(nothing.candidate)
        (0, 0)
    """

    candidates_at: NDArray[np.int64]
    candidate: NDArray[np.int32]
    rules_at: NDArray[np.int64]
    rule: NDArray[np.int32]
    count: NDArray[np.float32]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.candidates_at) - 1

    @classmethod
    def sorted_in(cls, rules: int, ends: Iterable[tuple[int, Matrix]], rows: int, entities: int) -> Grounding:
        """Turn matrices by rule around: numbers of paths [rows, entities] of some of so many rules, in any order."""
        by_rule = sorted(ends, key=lambda end: end[0])
        if not by_rule or not rows:
            return cls(*(np.zeros(size, kind) for size, kind in _sizes(rows)))
        # Two counting sorts, by candidate and then by row, both keep the order of what is equal: that of the rules.
        number = np.array([rule for rule, _ in by_rule])
        by_candidate = _on_top([matrix for _, matrix in by_rule]).tocsc()
        place, row = np.divmod(by_candidate.indices, rows)
        packed = np.empty(len(row), dtype=[("rule", np.int32), ("count", np.float32)])
        packed["rule"], packed["count"] = number[place], by_candidate.data
        by_row = csr_array((packed.view(np.int64), row, by_candidate.indptr), shape=(entities, rows)).tocsc()
        packed = by_row.data.view(packed.dtype)
        row = np.repeat(np.arange(rows), np.diff(by_row.indptr))
        new = np.ones(len(row), dtype=bool)
        new[1:] = (row[1:] != row[:-1]) | (by_row.indices[1:] != by_row.indices[:-1])
        first = np.flatnonzero(new)
        return cls(
            candidates_at=np.searchsorted(first, by_row.indptr).astype(np.int64),
            candidate=by_row.indices[first].astype(np.int32),
            rules_at=np.append(first, len(row)).astype(np.int64),
            rule=packed["rule"].copy(),
            count=packed["count"].copy(),
        )

    @classmethod
    def stacked(cls, parts: Sequence[Grounding]) -> Grounding:
        """The rows of all parts, one part below the other."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            candidates_at=_joined_ends([part.candidates_at for part in parts]),
            candidate=np.concatenate([np.empty(0, np.int32), *(part.candidate for part in parts)]),
            rules_at=_joined_ends([part.rules_at for part in parts]),
            rule=np.concatenate([np.empty(0, np.int32), *(part.rule for part in parts)]),
            count=np.concatenate([np.empty(0, np.float32), *(part.count for part in parts)]),
        )


def _sizes(rows: int) -> list[tuple[int, type]]:
    return [(rows + 1, np.int64), (0, np.int32), (1, np.int64), (0, np.int32), (0, np.float32)]


def _joined_ends(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    before = np.cumsum([0, *(int(part[-1]) for part in parts)])
    tails = [part[1:] + shift for part, shift in zip(parts, before[:-1], strict=True)]
    return np.concatenate([np.zeros(1, np.int64), *tails])


def _on_top(matrices: Sequence[Matrix]) -> Matrix:
    """Matrices of the same shape, one below the other."""
    ends = _joined_ends([matrix.indptr.astype(np.int64) for matrix in matrices])
    indices = np.concatenate([matrix.indices for matrix in matrices])
    data = np.concatenate([matrix.data for matrix in matrices])
    return csr_array((data, indices, ends), shape=(len(ends) - 1, matrices[0].shape[1]))
