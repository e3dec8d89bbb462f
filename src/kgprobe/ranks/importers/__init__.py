"""Import of ranks that other programs have written."""

from kgprobe.ranks.importers.rank_tables import FORMATS, import_ranks

__all__ = ["FORMATS", "import_ranks"]
