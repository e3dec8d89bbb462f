"""Audit of rank files: are they valid and comparable? Checks queries, candidates, ties, popularity and rank values."""

from kgprobe.audit.auditing import check, unreadable
from kgprobe.audit.view import Audit, Finding, Severity, gravest_first

__all__ = ["Audit", "Finding", "Severity", "check", "gravest_first", "unreadable"]
