import numpy as np
import pytest

import kgprobe as kp
from kgprobe.metrics import parse
from kgprobe.ranks import Ranks
from kgprobe.studies.evidence import Evidence, RankShare, group_name
from planted_claims import APART, RARE, SHARP, planted


@pytest.fixture(scope="module")
def lineup():
    return planted(APART, 0, triples=300, runs=2)


def test_values_are_those_of_evaluate(lineup):
    evidence = Evidence(lineup)
    for model in lineup.models:
        for metric in (SHARP, RARE, parse("MRR")):
            own = [kp.evaluate(run, metric)[str(metric)] for run in lineup.runs[model]]
            assert evidence.value(model, metric) == pytest.approx(np.mean(own), rel=1e-12)


def test_a_model_is_ahead_by_a_metric_of_which_less_is_better(lineup):
    found = Evidence(lineup).ahead("Even", "Weak", parse("MR"))
    assert found.observed
    assert found.value > 0
    assert Evidence(lineup).ahead("Weak", "Even", parse("MR")).value == -found.value


def test_share_of_ranks_is_counted(lineup):
    low, high = 2.0, 30.0
    counted = np.mean([((run.rank >= low) & (run.rank <= high)).mean() for run in lineup.runs["Even"]])
    assert Evidence(lineup).value("Even", RankShare(low, high)) == pytest.approx(counted)


def test_groups_by_popularity_are_the_rarest_first(lineup):
    evidence = Evidence(lineup)
    popularity = lineup.first.numbers("entity_popularity")
    rare = popularity <= np.quantile(popularity, 0.25, method="inverted_cdf")
    expected = np.mean([kp.evaluate(run.filter(rare), "MRR")["MRR"] for run in lineup.runs["Popular"]])
    assert evidence.value("Popular", parse("MRR"), group=1, groups=4) == pytest.approx(expected)
    assert evidence.size(4) == 4
    assert evidence.value("Popular", parse("MRR"), group=4, groups=4) > 2 * expected


def test_few_queries_are_not_trusted():
    tiny = planted(APART, 0, triples=20)
    assert Evidence(tiny).ahead("Sharp", "Weak", SHARP).remark == "the effective number of queries is 40, below 200"


def test_a_single_run_says_nothing_about_the_method():
    single = Evidence(planted(APART, 0, triples=120, runs=1)).ahead("Sharp", "Weak", SHARP)
    assert not single.has_runs
    assert single.fewest_runs == 1


def test_only_the_models_of_a_pair_need_several_runs():
    def table(seeds: int) -> Ranks:
        many = planted(APART, 0, triples=120, runs=seeds).runs["Sharp"]
        return kp.merge_seeds(dict(enumerate(many))) if seeds > 1 else many[0]

    from kgprobe.comparison import line_up

    evidence = Evidence(line_up({"one": table(1), "two": table(2), "three": table(3)}))
    assert evidence.ahead("two", "three", SHARP).has_runs
    assert not evidence.ahead("one", "three", SHARP).has_runs


def test_names_of_groups():
    assert group_name(7, 7) == "the most popular 7th"
