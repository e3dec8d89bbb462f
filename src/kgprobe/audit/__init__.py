"""May these rank files be compared? Findings about queries, candidates, ties, popularity and ranks."""

from kgprobe.audit.auditing import audit_files, unreadable
from kgprobe.audit.view import Finding, Severity, gravest_first

__all__ = ["Finding", "Severity", "audit_files", "gravest_first", "unreadable"]
