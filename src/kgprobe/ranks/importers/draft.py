"""A file on its way to become ranks: its columns, and everything that is wrong with them so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgprobe.ranks.checks import ROWS_NAMED, Checker, Rule, describe
from kgprobe.ranks.schema import COLUMNS, REQUIRED, conform


@dataclass
class Draft:
    """The columns that one file gives, with null where a value could not be read.

    Attributes:
        path: The file.
        rows: How many rows it has.
        columns: Columns of a rank table under their canonical names, then label columns.
        problems: What is wrong with the file.
        needs: What is not wrong, but cannot be done with what the user has given.
        notes: What the user should know about how the file was read.
        malformed: Columns with values that could not be read, each already named in ``problems`` or ``needs``.

    Example:
        >>> draft = Draft(Path("ranks.csv"), rows=3)
        >>> draft.refuse("rank", "rank is not a number", np.array([False, True, True]))
        >>> draft.problems
        ['rank is not a number: 2 rows (rows 2-3)']
    """

    path: Path
    rows: int = 0
    columns: dict[str, pa.Array] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    needs: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    malformed: set[str] = field(default_factory=set)

    def refuse(self, column: str, what: str, rows: NDArray[np.bool_]) -> None:
        """Note that a column cannot be read in some rows."""
        found = np.flatnonzero(rows)
        if found.size:
            self.problems.append(describe(what, found.size, (found[:ROWS_NAMED] + 1).tolist()))
            self.malformed.add(column)

    def require(self, column: str, what: str) -> None:
        """Note that a column cannot be had without something that the user did not give."""
        self.needs.append(what)
        self.malformed.add(column)

    def table(self) -> pa.Table:
        """The columns as a rank table, null where one is absent that must be there."""
        absent = {name: pa.nulls(self.rows, kind) for name, kind in REQUIRED.items() if name not in self.columns}
        return conform(pa.table(self.columns | absent))

    def judge(self, rules: tuple[Rule, ...]) -> list[str]:
        """Everything that is wrong: what could not be read, and what breaks the rules of a rank table."""
        table = self.table()
        checker = Checker(len(table), further=rules)
        checker.add(table)
        # A value that could not be read is null here. It has been named, and is not also missing.
        named = tuple(f"{column} is missing" for column in self.malformed)
        broken = [problem for problem in checker.problems(lambda: [table]) if not problem.startswith(named)]
        return self.problems + broken

    @property
    def label_columns(self) -> list[str]:
        """The columns beyond the canonical ones."""
        return [name for name in self.columns if name not in COLUMNS]
