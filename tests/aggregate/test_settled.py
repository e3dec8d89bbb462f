import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgprobe import RankAccumulator, UsageError, evaluate, parse
from kgprobe.aggregate import PopularityWeight
from kgprobe.aggregate.settled import Extremes, settle
from kgprobe.metrics.accumulator import read_column
from support import random_ranks, tables, take, with_columns

PROBE = parse("PROBE(alpha=0.5,beta=0.7)")
WANTED = [(PROBE.weighting, PROBE.needs_alternatives)]


@settings(max_examples=40)
@given(
    st.lists(st.lists(st.sampled_from([0.0, 0.001, 0.2, 0.7, 1.0]), max_size=4), max_size=4),
)
def test_extremes_do_not_depend_on_the_batches(batches):
    joined = Extremes()
    for batch in batches:
        joined = joined.joined(np.array(batch, dtype=float))
    values = [value for batch in batches for value in batch]
    positive = [value for value in values if value > 0]
    assert joined.values == {f(some) for f, some in ((min, values), (max, values), (min, positive)) if some}


@settings(max_examples=40)
@given(tables(), st.floats(-2, 2), st.floats(-2, 2), st.sampled_from([None, 0.01]))
def test_batch_by_batch_the_weights_are_those_of_the_whole(ranks, beta_e, beta_r, eps):
    weighting = PopularityWeight(beta_e, beta_r, eps, eps)
    if not weighting.columns:
        return
    columns = {name: ranks.numbers(name) for name in weighting.columns}
    whole = weighting.weights(columns, np.ones(len(ranks)))
    (settled,) = settle(ranks, [(weighting, True)], read_column)
    rows = [settled({name: column[[i]] for name, column in columns.items()}).item() for i in range(len(ranks))]
    assert np.array(rows) / np.sum(rows) == pytest.approx(whole / whole.sum(), rel=1e-12)
    assert max(rows) <= 1 + 1e-12


def test_queries_that_do_not_count_set_no_reference():
    ranks = with_columns(
        random_ranks(3), candidates=[1, 90, 90], rank=[1.0, 2.0, 3.0], ties=[0] * 3, entity_popularity=[0.001, 0.2, 0.3]
    )
    weighting = PopularityWeight(1.0, 0.0)
    several, all_of_them = settle(ranks, [(weighting, True), (weighting, False)], read_column)
    assert sorted(set(several.reference["entity_popularity"].tolist())) == [0.2, 0.3]
    assert sorted(set(all_of_them.reference["entity_popularity"].tolist())) == [0.001, 0.3]


def test_an_accumulator_with_settled_weights_gives_what_one_without_gives():
    ranks = random_ranks(60, smallest=1, runs=2)
    known = settle(ranks, WANTED, read_column)
    with_them, without = RankAccumulator([PROBE], settled=known), RankAccumulator([PROBE])
    for start in range(0, 60, 7):
        for accumulator in (with_them, without):
            accumulator.update(take(ranks, range(start, min(start + 7, 60))))
    assert with_them.compute() == pytest.approx(without.compute(), rel=1e-13)
    assert with_them.compute() == pytest.approx(evaluate(ranks, [PROBE]), rel=1e-13)
    assert [s.effective for s in with_them.scores()] == pytest.approx(
        [s.effective for s in without.scores()], rel=1e-12
    )


def test_parts_that_looked_at_different_tables_do_not_merge():
    parts = [random_ranks(20, seed=1), with_columns(random_ranks(20, seed=2), entity_popularity=[0.7] * 20)]
    one, other = (RankAccumulator([PROBE], settled=settle(part, WANTED, read_column)) for part in parts)
    with pytest.raises(UsageError, match="different settings"):
        one.merge(other)
    one.merge(RankAccumulator([PROBE], settled=settle(parts[0], WANTED, read_column)))
