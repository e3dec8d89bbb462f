"""Tables, figures and the HTML report page."""

from kgprobe.report.comparison_report import Report, compare

__all__ = ["Report", "compare"]
