"""Import of ranks that other programs have written."""

from kgprobe.ranks.importers.rank_tables import import_ranks
from kgprobe.ranks.importers.table_files import FORMATS

__all__ = ["FORMATS", "import_ranks"]
