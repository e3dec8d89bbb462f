import numpy as np
import pytest

import kgprobe as kp
from kgprobe.audit import Severity
from kgprobe.comparison.lineup import line_up
from kgprobe.predict.queries import RankedTriples
from kgprobe.predict.scorers import SIDES
from kgprobe.ranks import Ranks
from planting import unclean
from ranking import graph_of, matrix


def graph() -> kp.KnowledgeGraph:
    return graph_of(seed=1, entities=30)


def among(negatives: int, seed: int = 0, model: int = 0) -> Ranks:
    """Ranks among drawn negatives of each triple."""
    own = graph()
    rng = np.random.default_rng(seed)
    ranked = RankedTriples.build(own)
    lists = {side: rng.integers(0, 30, (len(ranked.given), negatives)) for side in SIDES}
    sets = kp.QueryCandidates(f"{negatives}.npz", lists, ranked.rows)
    return kp.rank(matrix(own, model), own, candidates=sets, name=f"model {model}")


def full(model: int = 0) -> Ranks:
    return kp.rank(matrix(graph(), model), graph(), name=f"model {model}")


def estimated(seed: int = 0, model: int = 0, size: int = 8) -> Ranks:
    return kp.rank(matrix(graph(), model), graph(), sample=size, seed=seed, name=f"model {model}")


def candidates_findings(files: dict[str, Ranks], with_graph: bool) -> list[kp.Finding]:
    found = kp.check(files, graph() if with_graph else None)
    return [finding for finding in found if finding.kind == "candidates"]


@pytest.mark.parametrize("with_graph", [False, True])
@pytest.mark.parametrize("sampled", [among(10), estimated()], ids=["fixed", "estimated"])
def test_sampled_ranks_are_not_compared_with_ranks_among_all(sampled: Ranks, with_graph: bool) -> None:
    found = candidates_findings({"few": sampled, "all": full(1), "every": full(2)}, with_graph)
    errors = [finding for finding in found if finding.severity is Severity.error]
    assert [finding.models for finding in errors] == [("few",)]
    assert "all, every are ranked among all candidates" in errors[0].message


def test_ranks_of_unknown_candidates_count_as_ranks_among_all() -> None:
    found = candidates_findings({"few": among(10), "other": replace_info(full(1))}, False)
    assert any(finding.severity is Severity.error and finding.models == ("few",) for finding in found)


def replace_info(ranks: Ranks) -> Ranks:
    return ranks.with_info(**dict.fromkeys(("candidates", "filtered", "filter_hash")))


@pytest.mark.parametrize("other", [among(10, seed=1), among(12), estimated()], ids=["set", "number", "estimated"])
def test_different_samples_are_not_compared(other: Ranks) -> None:
    found = candidates_findings({"few": among(10), "other": other}, False)
    errors = [finding for finding in found if finding.severity is Severity.error]
    assert [finding.models for finding in errors] == [("few", "other")]
    assert "sampled in different ways" in errors[0].message
    assert "10.npz" in errors[0].message


def test_the_same_sample_is_compared_with_a_note() -> None:
    files = {"one": among(10), "other": among(10, model=1)}
    found = candidates_findings(files, True)
    assert [(finding.severity, finding.models) for finding in found] == [
        (Severity.note, ("one",)),
        (Severity.note, ("other",)),
    ]
    assert not [one for one in unclean(files, graph()) if one.kind != "queries"]


def test_estimates_from_other_samples_are_compared() -> None:
    files = {"one": estimated(), "other": estimated(seed=1, model=1), "third": estimated(model=2, size=5)}
    found = candidates_findings(files, True)
    assert {finding.severity for finding in found} == {Severity.note}
    assert not [one for one in unclean(files, graph()) if one.kind != "queries"]


def test_typed_candidates_are_no_sample() -> None:
    own = graph()
    typed = kp.rank(matrix(own, 0), own, candidates="train", name="typed")
    assert not [one for one in candidates_findings({"typed": typed}, True) if "ample" in one.message]


def test_a_comparison_does_not_test_models_on_different_samples() -> None:
    one, other = among(10), among(10, seed=1, model=1)
    same_counts = other.with_ranks(np.ones(len(other)), np.zeros(len(other), int), one.candidates.astype(int))
    lineup = line_up({"one": one, "other": same_counts})
    assert lineup.candidate_differences == {("one", "other"): len(one)}
    compared = kp.compare({"one": one, "other": same_counts}, ["MRR"], replicates=100, permutations=100)
    assert any("sampled, 10 negatives" in remark for remark in compared.remarks)
    assert all(not difference.tested for difference in compared.comparison.differences)
