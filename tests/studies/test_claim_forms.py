import pytest

from kgprobe.metrics import parse
from kgprobe.metrics.popularity_metrics import PROBE
from kgprobe.studies.claim_forms import ClaimForm, Scope
from kgprobe.studies.claim_kinds import RANK_CLAIMS, Better, NoBest, Place, PlaceAt
from kgprobe.studies.fact_claims import FACT_CLAIMS

SCOPE = Scope(("umls", "wn18rr"), ("A", "B", "C"), (1.0, 0.0, -1.0), (0.0, 0.8), (parse("MRR"), parse("MedianRank")))

VALID = {
    "place": {"graph": "umls", "model": "A", "place": 2, "alpha": 1},
    "better": {"graph": "umls", "model": "A", "than": "B", "metric": "mrr"},
    "overtakes": {
        "graph": "umls",
        "model": "A",
        "other": "B",
        "start": {"alpha": 1},
        "end": {"alpha": -1, "beta": 0.8},
    },
    "order-changes": {"graph": "umls", "start": {"alpha": 1}, "end": {"alpha": -1}, "share": 0.2},
    "best-changes": {"graph": "umls", "start": {"alpha": 1}, "end": {"metric": "MRR"}},
    "more-ranks": {"graph": "umls", "model": "A", "other": "B", "low": 3, "high": 100},
    "rare-loss": {"graph": "umls", "model": "A", "other": "B", "alpha": 1},
    "no-best": {"alpha": "all", "beta": "all"},
    "wins": {"model": "A", "alpha": [1, 0], "share": 0.5, "graph_share": 0.6},
    "property": {"metric": "MRR", "has": ["fixed optimum"], "lacks": ["fixed pessimum"]},
    "theory": {"sentence": "Lemma 1"},
    "keeps-order": {"metric": "PROBE(alpha=0)", "than": "MRR", "missing": 0.25},
}


def read(kind, **changes):
    table = {"kind": kind, "statement": "It is so.", **VALID.get(kind, {}), **changes}
    form = ClaimForm({key: value for key, value in table.items() if value is not None}, SCOPE)
    return form.read("claim"), form.problems


def test_every_kind_has_a_form():
    assert set(VALID) == {*RANK_CLAIMS, *FACT_CLAIMS}


@pytest.mark.parametrize("kind", VALID)
def test_a_valid_claim_is_read(kind):
    claim, problems = read(kind, section="5.2")
    assert problems == []
    assert (claim.kind, claim.name, claim.statement, claim.section) == (kind, "claim", "It is so.", "5.2")


def test_values_arrive():
    place, _ = read("place", at=[{"place": 1, "alpha": 1}, {"place": 3, "metric": "MRR"}], place=None, alpha=None)
    assert isinstance(place, Place)
    assert place.at == (PlaceAt(1, PROBE(alpha=1.0, beta=0.0)), PlaceAt(3, parse("MRR")))
    everywhere, _ = read("no-best")
    assert isinstance(everywhere, NoBest)
    assert (everywhere.graphs, len(everywhere.at)) == (("umls", "wn18rr"), 6)
    better, _ = read("better", metric=None, alpha=[1, -1], beta=0.8)
    assert isinstance(better, Better)
    assert better.at == (PROBE(alpha=1.0, beta=0.8), PROBE(alpha=-1.0, beta=0.8))


@pytest.mark.parametrize(
    ("kind", "changes", "problem"),
    [
        ("plaec", {}, "unknown kind 'plaec'; nearest: place; known are place"),
        (5, {}, "unknown kind 5; known are"),
        ("place", {"graph": "umsl"}, "graph 'umsl' is not in the study; nearest: umls"),
        ("place", {"model": "D"}, "model 'D' is not in the study"),
        ("place", {"alpha": 2}, "alpha 2 is not in the study; it has 1, 0, -1"),
        ("place", {"beta": 0.5}, "beta 0.5 is not in the study; it has 0, 0.8"),
        ("place", {"place": 4}, "place must be a whole number from 1 to 3, not 4"),
        ("place", {"place": True}, "place must be a whole number from 1 to 3, not True"),
        ("place", {"model": None}, "model is missing"),
        ("place", {"plase": 1}, "unknown key 'plase'; nearest: place"),
        ("place", {"at": []}, "at must be a list of places"),
        ("place", {"statement": 3}, "statement must be a text, not 3"),
        ("better", {"metric": "Hits@10"}, "metric Hits@10 is not in the study; add it to metrics"),
        ("better", {"metric": "MedianRank"}, "MedianRank has no derivative, so claims cannot be about it"),
        ("better", {"alpha": 1}, "give either metric or alpha and beta"),
        ("better", {"metric": None}, "alpha or metric is missing"),
        ("better", {"metric": "MRRR"}, "unknown metric"),
        ("better", {"share": 1.5}, "share must be a number from 0 to 1, not 1.5"),
        ("overtakes", {"start": 1}, "start must be a point such as {alpha = 1, beta = 0}, not 1"),
        ("overtakes", {"start": {"alpha": [1, 0]}}, "start must be a single point"),
        ("more-ranks", {"high": 2}, "high must be a number from 3 to"),
        ("no-best", {"graphs": "umls"}, "graphs must be a list of names, not 'umls'"),
        ("property", {"has": ["fixed"]}, "unknown property 'fixed'"),
        ("theory", {"sentence": "Lemma 7"}, "no sentence of 'kgprobe openworld lemma' begins with 'Lemma 7'"),
        ("keeps-order", {"missing": 2}, "missing must be a number from 0 to 1, not 2"),
        ("keeps-order", {"late": 1}, "late must be true or false, not 1"),
    ],
)
def test_a_wrong_claim_is_refused(kind, changes, problem):
    claim, problems = read(kind, **changes)
    assert claim is None
    assert any(problem in one for one in problems), problems


def test_a_claim_without_a_statement_is_called_by_its_name():
    assert read("place", statement=None)[0].statement == "claim"


def test_all_problems_are_reported_at_once():
    _, problems = read("place", model="D", alpha=2, place=9)
    assert len(problems) == 3
