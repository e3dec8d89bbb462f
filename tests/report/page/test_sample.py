import numpy as np
import pytest

from kgprobe.compare import line_up
from kgprobe.report.page.sample import draw_sample
from pages import lined_up, made_up
from support import with_columns


def test_triples_are_drawn_whole_and_at_random() -> None:
    lineup = lined_up(rows=400)
    sample = draw_sample(lineup, 100)
    codes = lineup.clusters("triple").codes
    assert len(sample.random) == 100
    assert sorted(codes[sample.random].tolist()) == sorted(np.repeat(np.unique(codes[sample.random]), 2).tolist())
    assert sample.random.tolist() == sorted(sample.random.tolist())
    assert draw_sample(lineup, 100, seed=1).random.tolist() != sample.random.tolist()
    assert draw_sample(lineup, 100).rows.tolist() == sample.rows.tolist()


def test_every_triple_is_as_likely_as_any_other() -> None:
    lineup = lined_up(rows=40)
    drawn = np.zeros(40)
    for seed in range(400):
        drawn[draw_sample(lineup, 10, seed).random] += 1
    assert drawn / 400 == pytest.approx(np.full(40, 0.25), abs=0.09)


def test_the_others_are_those_on_which_the_models_differ_most() -> None:
    tables = made_up(rows=400, models=2)
    candidates = tables["model 0"].candidates
    tables["model 1"] = with_columns(tables["model 0"], rank=np.where(np.arange(400) % 40 == 0, candidates, 1.0))
    tables["model 0"] = with_columns(tables["model 0"], rank=np.ones(400))
    sample = draw_sample(line_up(tables), 50)
    unusual = set(range(0, 400, 40)) - set(sample.random.tolist())
    assert len(sample.different) == 10
    assert unusual - {row for row in range(400) if candidates[row] == 1} <= set(sample.different.tolist())
    assert not set(sample.different.tolist()) & set(sample.random.tolist())


def test_a_sample_larger_than_all_is_all() -> None:
    lineup = lined_up(rows=30)
    sample = draw_sample(lineup, 1000)
    assert sample.rows.tolist() == list(range(30))
    assert len(sample.of(lineup)) == 30


def test_the_lineup_of_a_sample_has_its_rows_in_every_run() -> None:
    lineup = lined_up(rows=60, seeds=(2, 1))
    sample = draw_sample(lineup, 20)
    for model, runs in sample.of(lineup).runs.items():
        for own, whole in zip(runs, lineup.runs[model], strict=True):
            assert own.rank.tolist() == whole.rank[sample.rows].tolist()
