import pytest

from kgprobe.metrics import METRICS, parse
from kgprobe.metrics.properties import Property
from kgprobe.metrics.properties.paper import claim

# The paper's table, row by row.
ROWS = {
    Property.fixed_optimum: "1 1 1 1 1 1 1 1",
    Property.fixed_pessimum: "0 0 1 0 0 1 1 1",
    Property.anti_monotone: "0 1 0 1 1 1 1 1",
    Property.candidate_size: "0 0 0 0 0 1 1 1",
    Property.sharpness: "0 0 1 1 0 0 0 1",
    Property.popularity: "0 0 0 0 0 0 0 1",
}
COLUMNS = ["MR", "MRR", "Hits@10", "pMRR", "StratMRR", "nWMR", "AMRI", "PROBE"]


@pytest.mark.parametrize("about", Property)
def test_claims_are_those_of_the_table(about: Property) -> None:
    assert [claim(parse(name), about) for name in COLUMNS] == [mark == "1" for mark in ROWS[about].split()]


def test_other_metrics_have_no_claim() -> None:
    columns = {type(parse(name)) for name in COLUMNS}
    assert all((claim(metric(), about) is not None) == (metric in columns) for metric in METRICS for about in Property)
