import kgprobe as kp
from planting import only, unclean


def test_files_of_different_graphs_are_told_apart(on_nations, nations) -> None:
    files = {
        name: ranks.with_info(graph_hash="0" * 64) if name == "CP" else ranks for name, ranks in on_nations.items()
    }
    found = only(files)
    assert (found.models, found.kind) == (("CP",), "metadata")
    assert "graph (content hash): 000000000000, most others say" in found.message
    assert "another graph" in only(files, nations).message


def test_two_files_that_disagree_are_both_named(on_nations) -> None:
    files = {"a": on_nations["CP"].with_info(split="test"), "b": on_nations["RESCAL"].with_info(split="valid")}
    found = only(files)
    assert (found.models, "a says test; b says valid" in found.message) == (("a", "b"), True)


def test_files_that_say_nothing_disagree_with_nobody(on_nations, nations) -> None:
    files = {
        name: ranks.with_info(split=None, graph_hash=None) if name == "CP" else ranks
        for name, ranks in on_nations.items()
    }
    assert unclean(files) == unclean(files, nations) == []


def test_different_candidates_are_named(nations, on_nations) -> None:
    files = dict(on_nations)
    files["typed"] = kp.rank("entity-frequency", nations, candidates="train")
    found = [finding for finding in unclean(files, nations) if finding.kind == "metadata"]
    assert [finding.models for finding in found] == [("typed",)]
    assert "candidates: train, most others say all entities" in found[0].message


def test_a_filter_that_can_be_counted_is_reported_once(umls, on_umls) -> None:
    files = dict(on_umls) | {"odd": kp.rank("entity-frequency", umls, filter="train")}
    found = only(files, umls)
    assert (found.models, found.kind) == (("odd",), "candidates")


def test_a_filter_that_cannot_be_counted_is_compared_as_it_is_said(umls, on_umls) -> None:
    files = dict(on_umls) | {"odd": kp.rank("entity-frequency", umls, filter="train")}
    kinds = {finding.kind for finding in unclean(files) if finding.models == ("odd",)}
    assert kinds == {"metadata", "candidates"}
