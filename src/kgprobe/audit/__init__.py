"""Audit of rank files: are they valid and comparable? Checks queries, candidates, ties, popularity and rank values."""

from kgprobe.audit.auditing import check, unreadable
from kgprobe.audit.flagging import Audited, audited, audited_lineup, flags_of
from kgprobe.audit.view import Audit, Finding, Severity, gravest_first

__all__ = [
    "Audit",
    "Audited",
    "Finding",
    "Severity",
    "audited",
    "audited_lineup",
    "check",
    "flags_of",
    "gravest_first",
    "unreadable",
]
