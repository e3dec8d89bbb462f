"""Ranks that others have written, in their own formats."""

from kgprobe.ranks.importers.probe_json import import_probe_json
from kgprobe.ranks.importers.rank_tables import IMPORTERS, Importer, import_ranks, import_table

__all__ = ["IMPORTERS", "Importer", "import_probe_json", "import_ranks", "import_table"]
