"""Ranks that others have written, in their own formats."""

from kgprobe.ranks.importers.delimited import import_table
from kgprobe.ranks.importers.probe_json import import_probe_json
from kgprobe.ranks.importers.registry import IMPORTERS, Importer

__all__ = ["IMPORTERS", "Importer", "import_probe_json", "import_table"]
