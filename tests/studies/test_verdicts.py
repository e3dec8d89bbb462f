import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from kgprobe.audit import audited
from kgprobe.comparison.lineup import Flag
from kgprobe.ranks import Ranks
from kgprobe.studies.claim_kinds import Better, NoBest, Place, PlaceAt
from kgprobe.studies.claim_logic import THESE_RUNS
from kgprobe.studies.evidence import Evidence
from kgprobe.studies.verdicts import Answer, SourceRanks, judge, summary
from planted_claims import APART, FALSE, FLAT, GRAPH, GRID, RARE, SCENARIOS, SHARP, TRUE, planted, verdicts_of

RIGHT = {
    "true": {Answer.method},
    "false": {Answer.contradicted},
    "undecidable": {Answer.undecided},
    "undecidable, runs differ": {Answer.undecided, Answer.runs, Answer.contradicted_runs},
}
ABOUT = {"statement": "", "section": "", "graphs": (GRAPH,)}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_verdicts_are_right_on_planted_data(scenario):
    for seed in (4, 5):
        verdicts = verdicts_of(scenario, seed)
        wrong = {verdict.claim.kind: verdict.answer for verdict in verdicts if verdict.answer not in RIGHT[scenario]}
        assert wrong == {}
        assert len(verdicts) == 10


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_verdicts_are_right_in_nearly_all_draws(scenario):
    """benchmarks/claim_verdicts.py has 200 draws of each; here three standard deviations below 95 % of 40 draws."""
    right: Counter[str] = Counter()
    confirmed: Counter[str] = Counter()
    for seed in range(300, 340):
        for verdict in verdicts_of(scenario, seed):
            right[verdict.claim.kind] += verdict.answer in RIGHT[scenario]
            confirmed[verdict.claim.kind] += verdict.answer is Answer.method
    assert min(right.values()) >= 40 * (0.95 - 3 * np.sqrt(0.95 * 0.05 / 40))
    if scenario != "true":
        assert max(confirmed.values()) <= 40 * (0.05 + 3 * np.sqrt(0.95 * 0.05 / 40))


def test_single_runs_decide_only_about_these_runs():
    source = SourceRanks("one run", {GRAPH: planted(APART, 0, runs=1)})
    verdict, other = judge([TRUE[1], replace(FALSE[1], name="false")], source)
    assert verdict.answer is Answer.runs
    assert other.answer is Answer.contradicted_runs
    assert verdict.p is None
    assert verdict.reason == "a model has a single training run, so nothing can be said about the method"


def test_claims_are_corrected_over_the_study():
    """The p-value of a claim grows with the number of claims that are less clear."""
    source = SourceRanks("planted", {GRAPH: planted(APART, 0)})
    (alone,) = judge([TRUE[0]], source)
    among = judge([TRUE[0], *(replace(TRUE[1], name=f"better {i}") for i in range(9))], source)[0]
    assert among.p_runs >= alone.p_runs
    stated = TRUE[0].stated({GRAPH: Evidence(source.lineups[GRAPH])})
    assert alone.p_runs == pytest.approx(2 * min(stated.p(THESE_RUNS)))


def flagged(lineup, model):
    return replace(lineup, flags={model: Flag(model, ("Filtered by train only",), error=True)})


def test_an_objection_of_the_audit_makes_claims_untrusted_with_both_verdicts():
    lineup = flagged(planted(APART, 0), "Sharp")
    claims = [
        Better(**ABOUT, name="names it", model="Sharp", other="Weak", at=GRID),
        Better(**ABOUT, name="does not", model="Steady", other="Weak", at=(SHARP,)),
        Place(**ABOUT, name="place", model="Weak", at=(PlaceAt(5, SHARP),)),
        NoBest(**ABOUT, name="no best", at=(SHARP, RARE)),
    ]
    named, free, place, best = judge(claims, SourceRanks("planted", {GRAPH: lineup}))
    assert (named.answer, named.with_flagged, named.without_flagged) == (
        Answer.untrusted,
        Answer.method,
        Answer.unchecked,
    )
    assert named.reason == "`kgprobe check` objects to Sharp: Filtered by train only"
    assert free.answer is Answer.method
    # Without Sharp, which is ahead of it, Weak is 4th of 4: the place moves up.
    assert (place.answer, place.with_flagged, place.without_flagged) == (
        Answer.untrusted,
        Answer.method,
        Answer.method,
    )
    assert best.with_flagged is Answer.contradicted
    assert [flag.model for flag in best.flags] == ["Sharp"]


def test_warnings_of_the_audit_change_nothing():
    lineup = planted(APART, 0)
    warned = replace(lineup, flags={"Sharp": Flag("Sharp", ("No ties",), error=False)})
    (verdict,) = judge([TRUE[1]], SourceRanks("planted", {GRAPH: warned}))
    assert verdict.answer is Answer.method


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (SourceRanks("empty", {}), "no ranks of planted"),
        (SourceRanks("empty", {}, {(GRAPH, None): "the folder is empty"}), "the folder is empty"),
        (
            SourceRanks("two", {GRAPH: planted({name: APART[name] for name in ("Even", "Weak")}, 0, triples=120)}),
            "no ranks of Sharp on planted",
        ),
    ],
)
def test_what_is_missing_cannot_be_checked(source, reason):
    (verdict,) = judge([TRUE[1]], source)
    assert (verdict.answer, verdict.reason, verdict.observed) == (Answer.unchecked, reason, None)


def test_a_claim_about_all_models_needs_all_but_those_out_of_memory():
    lineup = planted(APART, 0)
    absent = SourceRanks("published", {GRAPH: lineup}, {(GRAPH, "Sixth"): "no ranks of Sixth on planted"})
    place, better = judge([TRUE[0], TRUE[1]], absent)
    assert (place.answer, place.reason) == (Answer.unchecked, "no ranks of Sixth on planted")
    assert better.answer is Answer.method
    short = replace(absent, missing={(GRAPH, "Sixth"): "out of memory, according to the paper"})
    assert judge([TRUE[0]], short)[0].answer is Answer.method


def test_claims_about_metrics_say_how_many_models_would_decide_them():
    undecided = [
        one for seed in range(4) for one in verdicts_of("undecidable", seed) if one.claim.kind == "keeps-order"
    ]
    assert undecided[0].p_runs is None
    assert any("times as many models would decide it" in str(one.needed) for one in undecided)


def test_popularity_must_be_known_where_it_is_needed():
    lineup = planted(APART, 0, triples=120)
    kept = ("head", "relation", "tail", "side", "rank", "candidates")
    bare = replace(
        lineup,
        runs={
            model: tuple(Ranks.from_columns(**{name: run[name] for name in kept}) for run in runs)
            for model, runs in lineup.runs.items()
        },
    )
    rare, plain = judge([TRUE[6], TRUE[0]], SourceRanks("bare", {GRAPH: bare}))
    assert rare.reason == "the popularity of the targets of planted is not known"
    assert plain.answer is Answer.method


def test_an_undecided_claim_says_what_would_decide_it():
    source = SourceRanks("planted", {GRAPH: planted({**APART, "Twin": APART["Steady"]}, 2, triples=400)})
    (verdict,) = judge([Better(**ABOUT, name="twin", model="Steady", other="Twin", at=(SHARP,))], source)
    assert verdict.answer is Answer.undecided
    assert verdict.needed is not None
    assert "would decide it, if the observed differences are the true ones" in verdict.needed


def test_rows_are_flat():
    rows = [verdict.to_row() for verdict in verdicts_of("true", 0)]
    assert {type(value) for row in rows for value in row.values()} <= {str, float, bool, type(None)}
    assert summary(verdicts_of("false", 4)) == {"contradicted": 10}


def test_the_published_ranks_have_the_places_that_the_paper_names(data):
    """The places of the text and the order of the paper's printed table, from the authors' own files."""
    files = {path.stem: path for path in (data / "published_ranks" / "wn18rr").glob("*.parquet")}
    evidence = Evidence(audited(files, graph=data / "graphs" / "wn18rr").lineup)
    printed = {"RotatE": 0.4641, "ComplEx": 0.4754, "HousE": 0.4184, "TuckER": 0.4625, "pLogicNet": 0.4957}
    assert {model: round(evidence.value(model, SHARP), 4) for model in printed} == printed
    for model, other in itertools.combinations(printed, 2):
        assert evidence.ahead(model, other, SHARP).observed == (printed[model] > printed[other])
    assert not [model for model in files if model != "HousE" and evidence.ahead(model, "HousE", FLAT).observed]
