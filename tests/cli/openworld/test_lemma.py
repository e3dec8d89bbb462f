import json
from collections.abc import Callable
from typing import Any


def test_the_claims_are_tried_and_listed(kgprobe: Callable[..., Any]) -> None:
    run = kgprobe("openworld", "lemma", "--format", "json")
    assert run.code == 0
    rows = json.loads(run.out)
    assert {row["holds"] for row in rows} == {"yes", "no", "in its model"}
    assert all((row["violations"] > 0) == (row["holds"] == "no") for row in rows)
    lemma = next(row for row in rows if row["claim"].startswith("Lemma 1"))
    assert (lemma["holds"], lemma["violations"]) == ("in its model", 0)
    assert lemma["settings"] >= 200
