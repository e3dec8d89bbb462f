from collections import Counter

import numpy as np
import pytest

from kgprobe.openworld import check_claims
from kgprobe.openworld.claims import Claim, judged


@pytest.fixture(scope="module")
def claims() -> list[Claim]:
    return check_claims()


def test_a_claim_is_judged_by_its_worst_setting() -> None:
    measure = np.array([[0.1, 0.2], [0.9, 0.3]])
    assert judged("small", measure, 1.0, str) == Claim("small", "yes", 4, 0, "0.9 at (1, 0)")
    assert judged("small", measure, np.array([0.05, 1.0]), str) == Claim("small", "no", 4, 2, "0.9 at (1, 0)")


def test_lemma_1_holds_only_inside_its_model(claims: list[Claim]) -> None:
    found = {claim.claim.partition(" (")[2]: claim for claim in claims if claim.claim.startswith("Lemma 1")}
    assert [claim.holds for claim in found.values()] == ["in its model", "no", "no"]
    assert found["unlearned: nothing)"].violations == 0
    assert all(claim.violations == claim.settings >= 200 for claim in list(found.values())[1:])


def test_what_holds_and_what_does_not(claims: list[Claim]) -> None:
    assert Counter(claim.holds for claim in claims) == {"yes": 12, "no": 6, "in its model": 1}
    false = [claim.claim for claim in claims if claim.holds == "no"]
    assert any("g(0) = 1" in claim for claim in false)
    assert any("r > E" in claim for claim in false)
    assert any("no lower expected score (unlearned: anywhere)" in claim for claim in false)
    assert any("[1, 6] (unlearned: anywhere)" in claim for claim in false)


def test_every_row_says_how_much_was_tried(claims: list[Claim]) -> None:
    rows = [claim.to_row() for claim in claims]
    assert {tuple(row) for row in rows} == {("claim", "holds", "settings", "violations", "worst case")}
    assert all(row["settings"] >= 70 and " at " in row["worst case"] for row in rows)
    assert len({row["claim"] for row in rows}) == len(rows)
