"""Results for people: tables, figures and the one-file page."""

from kgprobe.report.comparison_report import Report, compare

__all__ = ["Report", "compare"]
