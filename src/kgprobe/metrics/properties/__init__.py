"""The paper's six properties of a rank-based metric, decided by search for a counterexample."""

from kgprobe.metrics.properties.definitions import Property
from kgprobe.metrics.properties.evidence import Evidence, Observation
from kgprobe.metrics.properties.result import PropertyResult
from kgprobe.metrics.properties.search import check_properties
from kgprobe.metrics.properties.tables import Query, Table, measure

__all__ = [
    "Evidence",
    "Observation",
    "Property",
    "PropertyResult",
    "Query",
    "Table",
    "check_properties",
    "measure",
]
