"""May these rank files be compared? Findings about queries, candidates, ties, popularity and ranks."""

from kgprobe.audit.auditing import check, unreadable
from kgprobe.audit.view import Finding, Severity, gravest_first

__all__ = ["Finding", "Severity", "check", "gravest_first", "unreadable"]
