"""Metrics that are broken on purpose: the search must find out how."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import kgprobe as kp
from kgprobe.arrays import Floats
from kgprobe.metrics import METRICS, Metric, parse
from kgprobe.metrics.metric import Facts, MeanMetric, Sums
from kgprobe.metrics.property_search import SIZES, MetricFamily, changed, check_properties, is_whole, pool
from kgprobe.metrics.six_properties import RARE, Evidence, Observation, Property, PropertyResult, Table
from kgprobe.transform import AffinePower, Identity, Power, Transformer


def test_a_metric_without_parameters_is_its_own_family() -> None:
    family = MetricFamily.of(parse("MRR"))
    assert family.by_parameter == {}
    assert family.members == (parse("MRR"),)


def test_values_that_the_metric_refuses_are_left_out() -> None:
    assert sorted(MetricFamily.of(parse("pMRR(p=0.3)")).by_parameter["p"]) == [0.3, 0.5, 1, 2]


def test_every_parameter_is_varied_by_itself() -> None:
    family = MetricFamily.of(parse("PROBE(alpha=0.5,beta=0.4)"))
    assert list(family.by_parameter) == ["alpha", "beta", "eps"]
    assert {member.parameters["beta"] for member in family.by_parameter["alpha"].values()} == {0.4}
    assert next(iter(family.members)) == family.metric
    assert len(set(family.members)) == len(family.members)


def test_separate_betas_may_meet() -> None:
    family = MetricFamily.of(parse("PROBE(alpha=1,beta_e=0.5)"))
    assert str(family.by_parameter["beta_r"][0.5]) == "PROBE(alpha=1,beta=0.5)"


def test_only_a_cut_off_is_whole() -> None:
    hits = parse("StratHits@5")
    assert [is_whole(hits, key) for key in hits.parameters] == [True, False, False]
    assert not is_whole(parse("pMRR"), "p")
    assert str(changed(hits, "k", 3)) == "StratHits@3(beta_e=1,beta_r=0)"


def _pairs(about: Property) -> list[tuple[Table, Table]]:
    return [(pool().tables[a], pool().tables[b]) for a, b in pool().pairs[about]]


def test_every_table_is_valid_and_occurs_once() -> None:
    tables = pool().tables
    assert len(set(tables)) == len(tables)
    assert all(1 <= query.rank <= query.candidates and query.candidates > 1 for table in tables for query in table)


@pytest.mark.parametrize("column", ["entity_popularity", "relation_popularity"])
def test_every_table_has_the_same_smallest_popularity(column: str) -> None:
    assert {min(getattr(query, column) for query in table) for table in pool().tables} == {RARE}


def test_optimum_and_pessimum_have_all_targets_first_or_last() -> None:
    for about, last in ((Property.fixed_optimum, False), (Property.fixed_pessimum, True)):
        tables = {table for pair in _pairs(about) for table in pair}
        assert all(query.rank == (query.candidates if last else 1) for table in tables for query in table)
        assert {table[0].candidates for table in tables if len(table) == 1} == set(SIZES)
        assert any(len({query.candidates for query in table}) > 1 for table in tables)


def test_monotonicity_worsens_one_target_and_leaves_the_rest() -> None:
    for worse, better in _pairs(Property.anti_monotone):
        assert worse[:-1] == better[:-1]
        assert worse[-1].candidates == better[-1].candidates
        assert worse[-1].rank > better[-1].rank


def test_candidate_size_is_tested_alone_and_beside_another() -> None:
    lengths = {len(table) for pair in _pairs(Property.candidate_size) for table in pair}
    assert lengths == {1, 2}
    assert all(max(q.rank for q in table) > 1 for pair in _pairs(Property.candidate_size) for table in pair)


def test_popularity_changes_nothing_but_popularity() -> None:
    for first, second in _pairs(Property.popularity):
        assert [(q.rank, q.candidates) for q in first] == [(q.rank, q.candidates) for q in second]
        assert first != second


def test_halves_and_whole_ranks_are_inside() -> None:
    inside = [query for place in pool().inside for query in pool().tables[place]]
    assert all(1 < query.rank < query.candidates for query in inside)
    assert {query.rank % 1 for query in inside} == {0, 0.5}


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


@dataclass(frozen=True)
class _Broken(MeanMetric):
    """PROBE, until a test breaks it."""

    name: ClassVar[str] = "Broken"
    facts: ClassVar[Facts] = Facts("Broken", 0, 1, True, "tests")

    @property
    def transformer(self) -> Transformer:
        return AffinePower(1.0)


@dataclass(frozen=True)
class _Increasing(_Broken):
    @property
    def transformer(self) -> Transformer:
        return Identity()


@dataclass(frozen=True)
class _SizeBlind(_Broken):
    @property
    def transformer(self) -> Transformer:
        return Power(1.0)


@dataclass(frozen=True)
class _CountsQueries(_Broken):
    def finish(self, sums: Sums) -> Floats:
        return sums.score


@dataclass(frozen=True)
class _Rounded(_Broken):
    def finish(self, sums: Sums) -> Floats:
        return np.round(sums.score / sums.weight, 3)


@dataclass(frozen=True)
class _FlatWhereNobodyLooks(_Broken):
    """Its parameter acts on good scores alone."""

    a: float = 1.0

    def finish(self, sums: Sums) -> Floats:
        value = sums.score / sums.weight
        return np.where(value > 0.1, value**self.a, value)


def test_the_unbroken_metric_passes_what_does_not_need_a_parameter() -> None:
    assert [result.holds for result in check_properties([_Broken()])] == [True, True, True, True, False, False]
    assert all(result.paper is None and result.agrees is None for result in check_properties([_Broken()]))


@pytest.mark.parametrize(
    ("metric", "fails"),
    [
        (_Increasing(), {PESSIMUM, ANTI_MONOTONE, SIZE}),
        (_SizeBlind(), {PESSIMUM, SIZE}),
        (_CountsQueries(), {OPTIMUM}),
        (_Rounded(), {ANTI_MONOTONE, SIZE}),
    ],
)
def test_a_broken_metric_is_caught(metric: Metric, fails: set[Property]) -> None:
    found = {result.about for result in check_properties([metric]) if not result.holds}
    assert found == fails | {SHARPNESS, POPULARITY}


def test_a_parameter_that_spares_some_ranks_is_no_sharpness() -> None:
    result = check_properties([_FlatWhereNobodyLooks()])[4]
    assert not result.holds
    assert result.counterexample
    assert all(0 < seen.value <= 0.1 for seen in result.counterexample.observations)
