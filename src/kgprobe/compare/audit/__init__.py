"""The audit of rank files: are they sound, and may they be compared?"""

from kgprobe.compare.audit.audit import audit_files
from kgprobe.compare.audit.finding import Finding, Severity, gravest_first
from kgprobe.compare.audit.rules import unreadable

__all__ = ["Finding", "Severity", "audit_files", "gravest_first", "unreadable"]
