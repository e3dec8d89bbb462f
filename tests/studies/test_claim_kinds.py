"""What a claim states, against the numbers themselves: every kind is observed exactly where the values say so."""

import itertools

import numpy as np
import pytest

from kgprobe.studies.claim_kinds import (
    RANK_CLAIMS,
    BestChanges,
    Better,
    MoreRanks,
    NoBest,
    OrderChanges,
    Overtakes,
    Place,
    PlaceAt,
    RareLoss,
    Wins,
    ordinal,
)
from kgprobe.studies.claim_logic import THESE_RUNS
from kgprobe.studies.evidence import Evidence
from planted_claims import APART, FLAT, GRAPH, GRID, RARE, SHARP, planted

ABOUT = {"name": "claim", "statement": "", "section": "", "graphs": (GRAPH,)}
METRICS = (SHARP, FLAT, RARE)


@pytest.fixture(scope="module")
def evidences():
    return {GRAPH: Evidence(planted(APART, 7, triples=200, runs=2))}


@pytest.fixture(scope="module")
def order(evidences):
    """The models by each metric, best first, sorted by their values."""
    evidence = evidences[GRAPH]
    return {m: sorted(evidence.models, key=lambda model: -evidence.value(model, m)) for m in METRICS}


def observed(claim, evidences):
    return claim.stated(evidences).observed


def test_place(evidences, order):
    for metric, model, place in itertools.product(METRICS, APART, range(1, 6)):
        claim = Place(**ABOUT, model=model, at=(PlaceAt(place, metric),))
        assert observed(claim, evidences) == (order[metric].index(model) + 1 == place)


def test_several_places_must_all_hold(evidences, order):
    right = [PlaceAt(order[metric].index("Sharp") + 1, metric) for metric in METRICS]
    assert observed(Place(**ABOUT, model="Sharp", at=tuple(right)), evidences)
    wrong = PlaceAt(right[-1].place % 5 + 1, METRICS[-1])
    assert not observed(Place(**ABOUT, model="Sharp", at=(*right[:-1], wrong)), evidences)


def test_a_place_moves_up_where_models_ahead_are_left_out(evidences, order):
    last = order[SHARP][-1]
    claim = Place(**ABOUT, model=last, at=(PlaceAt(5, SHARP),))
    assert claim.without(order[SHARP][:2], evidences).at == (PlaceAt(3, SHARP),)
    best = Place(**ABOUT, model=order[SHARP][0], at=(PlaceAt(1, SHARP),))
    assert best.without([last], evidences).at == (PlaceAt(1, SHARP),)
    assert claim.without([last], evidences) is None


@pytest.mark.parametrize("share", [0.3, 0.5, 1.0])
def test_better_at_a_share_of_the_points(evidences, order, share):
    for one, other in itertools.permutations(APART, 2):
        ahead = np.mean([order[metric].index(one) < order[metric].index(other) for metric in GRID])
        assert observed(Better(**ABOUT, model=one, other=other, at=GRID, share=share), evidences) == (ahead >= share)


def test_overtakes(evidences, order):
    for one, other in itertools.permutations(APART, 2):
        expected = order[SHARP].index(one) > order[SHARP].index(other) and order[FLAT].index(one) < order[FLAT].index(
            other
        )
        assert observed(Overtakes(**ABOUT, model=one, other=other, start=SHARP, end=FLAT), evidences) == expected


def test_order_changes_counts_discordant_pairs(evidences, order):
    first, second = order[SHARP], order[FLAT]
    swapped = sum(
        (first.index(a) < first.index(b)) != (second.index(a) < second.index(b))
        for a, b in itertools.combinations(APART, 2)
    )
    assert 0 < swapped < 10
    for pairs in range(1, 11):
        claim = OrderChanges(**ABOUT, start=SHARP, end=FLAT, share=pairs / 10)
        assert observed(claim, evidences) == (swapped >= pairs)
    assert next(claim.numbers(evidences)).startswith(f"{swapped} of 10 pairs of models change places")


def test_best_changes(evidences, order):
    for start, end in itertools.product(METRICS, repeat=2):
        claim = BestChanges(**ABOUT, start=start, end=end)
        assert observed(claim, evidences) == (order[start][0] != order[end][0])


def test_no_best_and_wins(evidences, order):
    for some in (GRID, (SHARP,), (SHARP, RARE)):
        winners = [order[metric][0] for metric in some]
        assert observed(NoBest(**ABOUT, at=some), evidences) == (len(set(winners)) > 1)
        for model in APART:
            claim = Wins(**ABOUT, model=model, at=some, share=0.5, graph_share=1.0)
            assert observed(claim, evidences) == (winners.count(model) / len(winners) >= 0.5)


def test_more_ranks(evidences):
    lineup = evidences[GRAPH].lineup
    counts = {
        model: np.mean([((run.rank >= 2) & (run.rank <= 30)).mean() for run in lineup.runs[model]]) for model in APART
    }
    for one, other in itertools.permutations(APART, 2):
        claim = MoreRanks(**ABOUT, model=one, other=other, low=2, high=30)
        assert observed(claim, evidences) == (counts[one] > counts[other])


def test_rare_loss(evidences):
    assert observed(RareLoss(**ABOUT, model="Popular", other="Steady", at=SHARP), evidences)
    assert not observed(RareLoss(**ABOUT, model="Steady", other="Popular", at=SHARP), evidences)
    shown = list(RareLoss(**ABOUT, model="Popular", other="Steady", at=SHARP).numbers(evidences))
    assert len(shown) == 4
    assert shown[0].startswith("popularity group 4 of 4: Popular 0.")


def test_every_kind_says_what_it_is():
    assert all(kind.about and kind.kind == name for name, kind in RANK_CLAIMS.items())
    assert [ordinal(number) for number in (12, 13, 21, 103, 111)] == ["12th", "13th", "21st", "103rd", "111th"]


def test_several_graphs_are_judged_by_those_that_have_ranks(evidences, order):
    several = {**ABOUT, "graphs": (GRAPH, "absent", "other")}
    best = NoBest(**several, at=GRID).stated(evidences)
    assert best.observed
    assert best.remarks == ("nothing is known of absent", "nothing is known of other")
    # What is not known of two graphs can support a claim about all three only where one graph is enough.
    assert best.p(THESE_RUNS).supports < 0.05 < best.p(THESE_RUNS).opposes == 1.0
    won = (SHARP,)
    one, two = (Wins(**several, model="Sharp", at=won, share=1.0, graph_share=share) for share in (0.33, 0.66))
    assert order[SHARP][0] == "Sharp"
    assert one.stated(evidences).p(THESE_RUNS).supports < 0.05
    assert two.stated(evidences).p(THESE_RUNS) == (1.0, 1.0)
