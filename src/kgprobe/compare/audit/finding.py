"""What an audit finds: who is concerned, what it is, how grave, and in how many rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How grave a finding is, the gravest first.

    An error is a fact that makes numbers wrong or incomparable; a warning is strong evidence of that; a note is worth
    knowing and does not make a file unclean.
    """

    error = "error"
    warning = "warning"
    note = "note"


@dataclass(frozen=True)
class Finding:
    """One cause of concern.

    Attributes:
        models: The models concerned, by the names under which their files were given.
        kind: The family of the finding, such as "candidates"; the audit's page describes them all.
        message: What was found, the evidence in numbers, and what to do.
        severity: How grave it is.
        rows: How many rows of the files are concerned; None where it is not a matter of rows.

    Example:
        >>> Finding(("mine",), "seeds", "seeds 1 and 2 are copies", "warning").unclean
        True
    """

    models: tuple[str, ...]
    kind: str
    message: str
    severity: Severity
    rows: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "severity", Severity(self.severity))

    @property
    def unclean(self) -> bool:
        """Whether a file with this finding is not clean."""
        return self.severity is not Severity.note


def gravest_first(findings: Iterable[Finding]) -> list[Finding]:
    """The findings in the order of their severity, otherwise as they come.

    Example:
        >>> found = [Finding(("a",), "ties", "", "note"), Finding(("b",), "queries", "", "error")]
        >>> [finding.kind for finding in gravest_first(found)]
        ['queries', 'ties']
    """
    order = list(Severity)
    return sorted(findings, key=lambda finding: order.index(finding.severity))
