import math

import pytest

import kgprobe as kp
from kgprobe.metrics import METRICS, Metric, parse
from kgprobe.metrics.properties import Evidence, Observation, Property, PropertyResult, Table, check_properties

OPTIMUM, PESSIMUM, ANTI_MONOTONE, SIZE, SHARPNESS, POPULARITY = Property

# Verdicts of the search for the columns of the paper's table; those in capitals differ from it.
EXPECTED = {
    "MR": "yes no  no  no  no  no",
    "MRR": "yes no  yes no  no  no",
    "Hits@10": "yes NO  no  no  NO  no",
    "pMRR(p=1)": "yes no  yes no  yes no",
    "StratMRR(beta_e=1,beta_r=0)": "yes no  yes no  no  YES",
    "nWMR": "yes yes yes NO  no  no",
    "AMRI": "yes yes yes NO  no  no",
    "PROBE(alpha=1,beta=0)": "yes yes yes yes yes yes",
}
DISAGREEMENTS = {
    ("Hits@10", PESSIMUM),
    ("Hits@10", SHARPNESS),
    ("StratMRR(beta_e=1,beta_r=0)", POPULARITY),
    ("nWMR", SIZE),
    ("AMRI", SIZE),
}


@pytest.fixture(scope="module")
def results() -> list[PropertyResult]:
    return check_properties()


def _find(results: list[PropertyResult], name: str, about: Property) -> PropertyResult:
    (found,) = [result for result in results if str(result.metric) == name and result.about is about]
    return found


def _evaluate(metric: Metric, table: Table) -> float:
    """The value of a table by itself, by the road that every user takes."""
    ids = list(range(len(table)))
    ranks = kp.Ranks.from_columns(
        head=ids,
        relation=[0] * len(ids),
        tail=ids,
        side=["tail"] * len(ids),
        rank=[float(query.rank) for query in table],
        candidates=[query.candidates for query in table],
        entity_popularity=[query.entity_popularity for query in table],
        relation_popularity=[query.relation_popularity for query in table],
    )
    return kp.evaluate(ranks, [metric])[str(metric)]


def _repeat(evidence: Evidence) -> list[tuple[Observation, Observation, float, float]]:
    """Observations two by two with values that are computed anew."""
    fresh = [_evaluate(seen.metric, seen.table) for seen in evidence.observations]
    assert fresh == pytest.approx([seen.value for seen in evidence.observations], rel=1e-12, nan_ok=True)
    pairs = zip(evidence.observations[::2], evidence.observations[1::2], fresh[::2], fresh[1::2], strict=True)
    return list(pairs)


def _equal(x: float, y: float) -> bool:
    return math.isclose(x, y, rel_tol=1e-12) or (math.isnan(x) and math.isnan(y))


def test_every_metric_is_tested_for_every_property(results: list[PropertyResult]) -> None:
    names = [str(metric()) for metric in METRICS]
    assert [(str(r.metric), r.about) for r in results] == [(name, about) for name in names for about in Property]


@pytest.mark.parametrize("name", EXPECTED)
def test_verdicts_for_the_columns_of_the_paper(name: str, results: list[PropertyResult]) -> None:
    expected = dict(zip(Property, EXPECTED[name].split(), strict=True))
    verdicts = {about: _find(results, name, about) for about in Property}
    assert {about: r.holds for about, r in verdicts.items()} == {a: e.lower() == "yes" for a, e in expected.items()}
    assert {about: r.agrees for about, r in verdicts.items()} == {a: e.islower() for a, e in expected.items()}


def test_disagreements_with_the_paper_are_the_known_ones_and_each_has_its_reason(results: list[PropertyResult]) -> None:
    differing = {(str(result.metric), result.about): result.reason for result in results if result.agrees is False}
    assert differing.keys() == DISAGREEMENTS
    assert len(set(differing.values())) == len(DISAGREEMENTS)
    assert not any("12 digits" in reason for reason in differing.values())
    assert not any(result.reason for result in results if result.agrees is not False)


def test_a_fixed_optimum_or_pessimum_is_refuted_by_two_perfect_or_worst_tables(results: list[PropertyResult]) -> None:
    for result in results:
        if result.about not in (OPTIMUM, PESSIMUM) or result.counterexample is None:
            continue
        ((first, second, x, y),) = _repeat(result.counterexample)
        assert first.metric == second.metric == result.metric
        for query in (*first.table, *second.table):
            assert query.rank == (1 if result.about is OPTIMUM else query.candidates)
        assert not _equal(x, y), result


def test_anti_monotonicity_is_refuted_by_a_worse_rank_that_does_not_score_less(results: list[PropertyResult]) -> None:
    for result in results:
        if result.about is ANTI_MONOTONE and result.counterexample:
            ((worse, better, x, y),) = _repeat(result.counterexample)
            assert [q.candidates for q in worse.table] == [q.candidates for q in better.table]
            assert worse.table[:-1] == better.table[:-1]
            assert worse.table[-1].rank > better.table[-1].rank
            assert _equal(x, y) or x > y, result


def test_candidate_size_is_refuted_by_a_larger_set_that_does_not_score_more(results: list[PropertyResult]) -> None:
    for result in results:
        if result.about is SIZE and result.counterexample:
            ((in_small, in_large, x, y),) = _repeat(result.counterexample)
            if len(in_small.table) == 1:
                assert in_small.table[0].rank == in_large.table[0].rank > 1
                assert in_small.table[0].candidates < in_large.table[0].candidates
            else:
                few, many = (query.candidates for query in in_small.table)
                assert few < many
                assert [query.candidates for query in in_large.table] == [few, many]
                (rank, one), swapped = ([query.rank for query in seen.table] for seen in (in_small, in_large))
                assert rank > one == 1
                assert swapped == [one, rank]
            assert _equal(x, y) or x > y, result


def test_sharpness_is_refuted_by_a_rank_that_scores_the_same_for_two_values(results: list[PropertyResult]) -> None:
    for result in results:
        if result.about is SHARPNESS and result.counterexample:
            pairs = _repeat(result.counterexample)
            assert len(pairs) == len(result.metric.parameters), "every parameter needs its own counterexample"
            for one, other, x, y in pairs:
                assert one.metric != other.metric
                assert type(one.metric) is type(other.metric) is type(result.metric)
                assert one.table == other.table
                assert 1 < one.table[0].rank < one.table[0].candidates
                assert _equal(x, y), result


def test_popularity_is_shown_by_a_value_that_moves_with_it_alone(results: list[PropertyResult]) -> None:
    for result in results:
        if result.about is not POPULARITY:
            continue
        evidence = result.witness if result.holds else result.counterexample
        assert evidence
        ((first, second, x, y),) = _repeat(evidence)
        assert [(q.rank, q.candidates) for q in first.table] == [(q.rank, q.candidates) for q in second.table]
        assert first.table != second.table
        assert _equal(x, y) is not result.holds


def test_what_fails_only_literally_is_told_with_numbers(results: list[PropertyResult]) -> None:
    literal = {(str(result.metric), result.about): result.literal for result in results if result.literal}
    assert {about for name, about in literal if name.startswith("PROBE")} == {SIZE, SHARPNESS, POPULARITY}
    assert ("pMRR(p=1)", SHARPNESS) in literal
    for (_, about), evidence in literal.items():
        ((first, second, x, y),) = _repeat(evidence)
        if about is SIZE:
            assert first.table[0].rank == second.table[0].rank == 1
        elif about is SHARPNESS:
            assert first.table[0].rank in (1, first.table[0].candidates)
        assert (x > y) if about is POPULARITY else _equal(x, y)


def test_a_property_that_holds_says_how_much_was_searched(results: list[PropertyResult]) -> None:
    assert all(result.searched > 80 for result in results if result.holds)


def test_readings_and_exceptions_are_told_apart(results: list[PropertyResult]) -> None:
    assert "alone" in _find(results, "AMRI", SIZE).note
    assert "alone" in _find(results, "nWMR", SIZE).note
    assert _find(results, "MR", ANTI_MONOTONE).reversed
    assert not _find(results, "Hits@10", ANTI_MONOTONE).reversed
    assert _find(results, "Hits@10", PESSIMUM).note == "otherwise at k=1"
    assert _find(results, "rawPROBE(alpha=1,beta=0)", ANTI_MONOTONE).note == (
        "otherwise at alpha=0, alpha=-0.5, alpha=-1"
    )


def test_a_score_that_rises_and_falls_along_a_parameter_is_caught_between_the_values_tried(
    results: list[PropertyResult],
) -> None:
    evidence = _find(results, "APROBE(alpha=1,beta=0)", SHARPNESS).counterexample
    assert evidence
    alphas = [seen.metric.parameters["alpha"] for seen in evidence.observations[:2]]
    assert alphas[0] != alphas[1]
    assert any(2 * alpha % 1 for alpha in alphas)


def test_the_search_is_the_same_every_time(results: list[PropertyResult]) -> None:
    assert check_properties(["AMRI", "APROBE"]) == [
        result for name in ("AMRI", "APROBE") for result in results if result.metric == parse(name)
    ]


def test_names_and_metric_values_are_taken_and_bad_names_refused() -> None:
    assert [str(result.metric) for result in check_properties(["hits@1", parse("MRR")])[::6]] == ["Hits@1", "MRR"]
    assert check_properties([]) == []
    with pytest.raises(kp.UsageError, match="unknown metric"):
        check_properties(["MMR"])


def test_extreme_parameters_fail_with_a_reason_of_their_own() -> None:
    result = check_properties(["PROBE(alpha=inf)"])[2]
    assert not result.holds
    assert "12 digits" in result.reason
