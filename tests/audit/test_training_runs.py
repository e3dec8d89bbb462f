import numpy as np
import pytest

import kgprobe as kp
from kgprobe.audit import check
from planting import only, planted, unclean


def seeds(**runs: kp.Ranks) -> kp.Ranks:
    return kp.merge_seeds({int(name[1:]): ranks for name, ranks in runs.items()})


def test_different_runs_are_clean(on_umls, umls) -> None:
    assert unclean({"CP": seeds(_1=on_umls["CP"], _2=on_umls["CP again"])}, umls) == []
    assert unclean(on_umls, umls) == []


@pytest.mark.parametrize("changed", [0, 12])
def test_seeds_that_are_copies(on_umls, changed: int) -> None:
    one, other = on_umls["CP"], on_umls["CP again"]
    rank = one.rank.copy()
    rank[:changed] = np.where(rank[:changed] > 1, 1, 2)
    copy = planted(one, rank=rank, ties=None)
    found = only({"CP": seeds(_1=planted(one, ties=None), _2=planted(other, ties=None), _3=copy)})
    assert (found.models, found.kind) == (("CP",), "seeds")
    assert f"Seeds 1 and 3 are copies of each other: {len(one) - changed:,} of {len(one):,} ranks" in found.message


def test_three_copies_are_one_finding(on_umls) -> None:
    one = on_umls["CP"]
    assert "Seeds 1, 2 and 3 are copies" in only({"CP": seeds(_1=one, _2=one, _3=one)}).message


def test_a_copy_under_another_name(on_umls, umls) -> None:
    files = {**on_umls, "new": on_umls["CP"].with_info(model="new")}
    found = only(files, umls)
    assert found.models == ("CP", "new")
    assert "CP and new are copies of each other" in found.message


def test_a_file_of_several_runs_under_another_name_is_one_finding(on_umls) -> None:
    runs = seeds(_1=on_umls["CP"], _2=on_umls["CP again"], _3=on_umls["RESCAL"])
    found = only({"old": runs, "new": runs})
    assert (found.models, found.rows) == (("old", "new"), 3 * 6528)
    assert found.message.startswith("old and new are copies of each other in 3 runs: 19,584 of 19,584 ranks are equal")


def test_a_run_of_one_model_in_another(on_umls) -> None:
    files = {"a": seeds(_1=on_umls["CP"], _2=on_umls["RESCAL"]), "b": seeds(_1=on_umls["CP again"], _2=on_umls["CP"])}
    assert "a (seed 1) and b (seed 2) are copies" in only(files).message


def test_models_that_are_nearly_perfect_are_no_copies() -> None:
    n = 20_000
    rng = np.random.default_rng(0)

    def perfect() -> kp.Ranks:
        rank = np.where(rng.random(n) < 0.003, 1 + rng.integers(1, 5, n), 1)
        columns = {"head": np.arange(n), "relation": np.zeros(n, int), "tail": np.zeros(n, int), "side": ["tail"] * n}
        return kp.Ranks.from_columns(**columns, rank=rank, candidates=np.full(n, 50))

    assert "seeds" not in {finding.kind for finding in check({"a": perfect(), "b": perfect()})}


def test_seeds_with_different_queries(on_umls) -> None:
    one, other = on_umls["CP"], on_umls["CP again"]
    rows = np.arange(len(one))
    found = only({"CP": seeds(_1=one, _2=other.filter(rows < 6000))})
    assert "Seeds have different numbers of queries: 1: 6,528, 2: 6,000 (6,000 in common)" in found.message
    found = only({"CP": seeds(_1=one.filter(rows >= 8), _2=other.filter(rows < len(one) - 8))})
    assert (found.rows, "Seeds have different queries: 1: 6,520, 2: 6,520" in found.message) == (16, True)


def test_a_run_that_failed(on_umls, umls) -> None:
    found = only({"CP": seeds(_1=on_umls["CP"], _2=on_umls["CP again"], _3=kp.rank("random", umls))})
    assert "The MRR of the seeds differ widely (1: 0.4" in found.message
