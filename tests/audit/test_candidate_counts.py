from itertools import combinations

import numpy as np
import pytest

import kgprobe as kp
from kgprobe.audit import check
from kgprobe.audit.candidate_counts import Convention, Recount
from kgprobe.audit.view import AuditQueries
from planting import only, planted, silent, unclean

FILTERS = {
    "train": "Filtered by train only",
    "train+valid": "Filtered by train+valid:",
    "test": "Filtered by test only",
    "none": "Unfiltered",
}


@pytest.mark.parametrize("graph", ["umls", "codex", "nations"])
@pytest.mark.parametrize(("applied", "name"), FILTERS.items())
def test_a_deviating_filter_is_named(request, graph: str, applied: str, name: str) -> None:
    graph, files = request.getfixturevalue(graph), dict(request.getfixturevalue(f"on_{graph}"))
    files = {model: silent(ranks) for model, ranks in files.items()}
    assert unclean(files, graph) == []
    files["odd"] = silent(kp.rank("relation-frequency", graph, filter=applied))
    del files["frequency"]  # the same model, in the usual setting
    found = [finding for finding in unclean(files, graph) if finding.kind == "candidates"]
    assert [finding.models for finding in found] == [("odd",)]
    assert found[0].message.startswith(name), found[0].message
    right = kp.rank("relation-frequency", graph).candidates
    assert found[0].rows == int((files["odd"].candidates != right).sum())


def test_a_filter_that_the_file_says_is_only_worth_a_note_where_all_agree(umls) -> None:
    files = {name: kp.rank(name, umls, filter="train") for name in ("relation-frequency", "entity-frequency")}
    found = [finding for finding in check(files, umls) if finding.kind == "candidates"]
    assert [finding.severity for finding in found] == ["note", "note"]
    files["usual"] = kp.rank("random", umls)
    assert [finding.models for finding in unclean(files, umls)] == [("relation-frequency",), ("entity-frequency",)]


def test_a_file_that_says_another_filter_than_it_has(umls) -> None:
    ranks = kp.rank("relation-frequency", umls, filter="train").with_info(filtered=("train", "valid", "test"))
    found = only({"mine": ranks}, umls)
    assert found.message.startswith("Filtered by train only, but the metadata record filtered by train+valid+")
    ranks = kp.rank("relation-frequency", umls).with_info(filtered=("train",))
    assert "but the metadata record filtered by train only" in only({"mine": ranks}, umls).message


OFFSETS = {
    -1: "one too few candidates in every query",
    1: "one too many candidates in every query",
    3: "3 too many candidates",
}


@pytest.mark.parametrize(("offset", "name"), OFFSETS.items())
def test_a_constant_offset_is_named(on_umls, umls, offset: int, name: str) -> None:
    ranks = silent(on_umls["CP"])
    counts = np.clip(ranks.candidates + offset, np.ceil(ranks.rank), umls.num_entities).astype(int)
    moved = planted(ranks, candidates=counts, ties=None)
    found = only({"CP": moved, "RESCAL": silent(on_umls["RESCAL"])}, umls)
    assert (found.models, found.kind) == (("CP",), "candidates")
    assert name in found.message
    assert found.rows == int((counts != ranks.candidates).sum())


@pytest.mark.parametrize("told", [True, False], ids=["with graph", "without graph"])
@pytest.mark.parametrize("offset", [-1, 1])
@pytest.mark.parametrize("graph", ["codex", "umls", "nations"])
def test_a_constant_offset_is_named_also_where_it_breaks_a_rule(request, graph: str, offset: int, told: bool) -> None:
    files = {model: silent(ranks) for model, ranks in request.getfixturevalue(f"on_{graph}").items()}
    counts = (files["CP"].candidates + offset).astype(int)
    files["CP"] = planted(files["CP"], candidates=counts)
    knowledge = request.getfixturevalue(graph)
    assert (files["CP"].rank > counts).any() or (counts > knowledge.num_entities).any()
    found = only(files, knowledge if told else None)
    assert (found.models, found.kind, found.rows) == (("CP",), "candidates", len(counts))
    assert OFFSETS[offset] in found.message.lower()
    if told:
        assert only({"CP": files["CP"]}, knowledge).message == found.message


def test_other_counts_that_break_a_rule_are_named_by_the_rule(on_codex, codex) -> None:
    ranks = silent(on_codex["CP"])
    few = np.where(np.arange(len(ranks)) < 9, codex.num_entities + 7, ranks.candidates).astype(int)
    found = only({"CP": planted(ranks, candidates=few), "RESCAL": silent(on_codex["RESCAL"])}, codex)
    assert (found.kind, "counted twice" in found.message) == ("rules", True)
    sampled = planted(ranks, candidates=np.full(len(ranks), 101), ties=None)
    assert only({"CP": sampled}, codex).message.startswith("rank is larger than the number of candidates")


def test_entities_that_train_does_not_contain_are_recognised(codex) -> None:
    more = kp.KnowledgeGraph.from_triples(
        **{split: codex.triples(split) for split in ("train", "valid", "test")}, num_entities=codex.num_entities + 40
    )
    ranks = silent(kp.rank("relation-frequency", codex))
    assert (
        "40 too few candidates in every query (the number of entities that are not in train"
        in only({"a": ranks}, more).message
    )


def test_sampled_candidates_are_recognised(on_codex, codex) -> None:
    ranks = silent(on_codex["CP"])
    sampled = planted(ranks, candidates=np.full(len(ranks), 101), rank=np.minimum(ranks.rank, 101), ties=None)
    message = next(f.message for f in unclean({"CP": sampled}, codex) if f.kind == "candidates")
    assert message.startswith("Exactly 101 candidates in every query (sampled candidates?)")


@pytest.mark.parametrize("side", ["head", "tail"])
def test_one_side_with_another_filter_is_named(umls, side: str) -> None:
    usual, odd = (silent(kp.rank("random", umls, filter=kind)) for kind in ("all", "train"))
    one_side = usual.predicts_tail == (side == "tail")
    mixed = planted(usual, **{c: np.where(one_side, odd.numbers(c), usual.numbers(c)) for c in ("rank", "candidates")})
    found = only({"mine": planted(mixed, candidates=mixed.candidates.astype(int))}, umls)
    assert f"{side} side filtered by train only" in found.message.lower()
    assert found.rows == int((odd.candidates != usual.candidates)[one_side].sum())


def test_swapped_sides_are_named(on_codex, codex) -> None:
    ranks = silent(on_codex["CP"])
    swapped = planted(ranks, side=np.where(ranks.predicts_tail, "head", "tail"))
    found = [finding for finding in unclean({"CP": swapped}, codex) if finding.kind == "candidates"]
    assert ["with head and tail side swapped" in finding.message for finding in found] == [True]


def test_rows_that_no_filter_explains_are_counted(on_codex, codex) -> None:
    ranks = silent(on_codex["CP"])
    candidates = ranks.candidates.astype(int)
    rows = np.random.default_rng(0).choice(len(ranks), 17, replace=False)
    candidates[rows] = 2000
    candidates = np.maximum(candidates, np.ceil(ranks.rank).astype(int))
    off = int((candidates != ranks.candidates).sum())
    found = only({"CP": planted(ranks, candidates=candidates, ties=None)}, codex)
    assert found.rows == off
    assert f"{off} of 3,656 rows have candidate counts that no filter explains" in found.message


def test_no_filter_at_all_explains_made_up_counts(on_codex, codex) -> None:
    ranks = silent(on_codex["CP"])
    made_up = np.random.default_rng(0).integers(2025, 2035, len(ranks))
    made_up = np.maximum(made_up, np.ceil(ranks.rank)).astype(int)
    assert only({"CP": planted(ranks, candidates=made_up, ties=None)}, codex).message.startswith(
        "Explained by no filter: "
    )


def test_without_a_graph_the_odd_one_out_is_named(on_umls, umls) -> None:
    files = {model: silent(ranks) for model, ranks in on_umls.items()}
    files["odd"] = silent(kp.rank("entity-frequency", umls, filter="train"))
    found = [finding for finding in unclean(files) if finding.kind == "candidates"]
    assert [finding.models for finding in found] == [("odd",)]
    assert "more candidates on average than the other files: fewer triples were filtered" in found[0].message
    pair = {name: files[name] for name in ("odd", "CP")}
    found = [finding for finding in unclean(pair) if finding.kind == "candidates"]
    assert "odd has more candidates than CP" in found[0].message


def test_without_a_graph_a_constant_offset_is_named(on_codex) -> None:
    files = {model: silent(ranks) for model, ranks in on_codex.items()}
    ranks = files["CP"]
    late = ranks.rank == ranks.candidates
    files["CP"] = planted(ranks, candidates=(ranks.candidates - 1).astype(int), rank=ranks.rank - late, ties=None)
    found = only(files)
    assert (found.models, found.rows) == (("CP",), len(ranks))
    assert found.message.startswith("One too few candidates in every query compared with the other files")


def test_candidates_that_are_given_cannot_be_counted_again(umls) -> None:
    assert unclean({"mine": kp.rank("relation-frequency", umls, candidates="train")}, umls) == []


def test_one_run_with_another_filter_is_named(umls) -> None:
    usual, odd = (silent(kp.rank("random", umls, filter=kind)) for kind in ("all", "train"))
    found = [f for f in unclean({"mine": kp.merge_seeds({1: usual, 2: odd})}, umls) if f.kind == "candidates"]
    assert [finding.message.startswith("Seed 2 only: filtered by train only: ") for finding in found] == [True]
    assert found[0].rows == int((odd.candidates != usual.candidates).sum())


@pytest.mark.parametrize("kind", [None, "train"])
def test_the_usual_filter_of_the_valid_split_is_train_and_valid(umls, kind: str | None) -> None:
    files = {name: silent(kp.rank(name, umls, split="valid", filter=kind)) for name in ("random", "entity-frequency")}
    found = unclean(files, umls)
    assert [finding.models for finding in found] == ([(name,) for name in files] if kind else [])
    assert all(finding.message.startswith("Filtered by train only: ") for finding in found)


def test_without_a_graph_three_counts_leave_nobody_to_blame(umls) -> None:
    files = {kind: silent(kp.rank("random", umls, filter=kind)) for kind in ("all", "train", "none")}
    found = [finding for finding in unclean(files) if finding.kind == "candidates"]
    assert [finding.models for finding in found if "without a majority" in finding.message] == [tuple(files)]
    counts = np.stack([ranks.candidates for ranks in files.values()])
    assert found[0].rows == int((counts.min(axis=0) < counts.max(axis=0)).sum())


def test_without_a_graph_one_file_is_blamed_only_where_the_others_agree(umls) -> None:
    files = {str(i): silent(kp.rank("random", umls)) for i in range(3)}
    one, other = ((files[i].candidates + 1).astype(int) for i in "12")
    rows = np.arange(len(one))
    files["1"] = planted(files["1"], candidates=np.where(rows < 10, one, one - 1))
    files["2"] = planted(files["2"], candidates=np.where(rows < 4, other + 1, other - 1))
    found = [finding for finding in unclean(files) if finding.kind == "candidates"]
    assert [(finding.models, finding.rows) for finding in found] == [(("1",), 6)]


def queries_of(graph: kp.KnowledgeGraph) -> AuditQueries:
    head, relation, tail = np.tile(graph.triples("test").astype(np.int64), (2, 1)).T
    return AuditQueries(head, relation, tail, np.repeat([True, False], len(head) // 2))


@pytest.mark.parametrize("size", [0, 1, 2, 3])
def test_counts_are_those_of_a_loop(nations, size: int) -> None:
    queries = queries_of(nations)
    for splits in combinations(("train", "valid", "test"), size):
        known = {tuple(triple) for split in splits for triple in nations.triples(split).tolist()}
        for swapped in (False, True):
            due = []
            for h, r, t, tail in zip(*queries.triples, queries.predicts_tail, strict=True):
                others = [(h, r, e) if tail ^ swapped else (e, r, t) for e in range(14)]
                due.append(14 - sum(triple in known and triple != (h, r, t) for triple in others))
            assert Recount(nations, queries).left(splits, swapped).tolist() == due


@pytest.mark.parametrize("offset", [0, -1, 1, 5, -3])
@pytest.mark.parametrize(
    "filtered", [(), ("train",), ("train", "valid"), ("valid", "test"), ("train", "valid", "test")]
)
@pytest.mark.parametrize("swapped", [False, True])
def test_every_convention_is_recognised(codex, filtered: tuple[str, ...], offset: int, swapped: bool) -> None:
    recount = Recount(codex, queries_of(codex))
    rows = np.ones(len(recount.queries), dtype=bool)
    fit = recount.best((recount.left(filtered, swapped) + offset).astype(float), rows, ("train", "valid", "test"))
    assert fit.convention == Convention(filtered, offset, swapped and bool(filtered))
    assert fit.share == 1


def test_what_several_conventions_explain_is_the_one_that_is_due(codex) -> None:
    recount = Recount(codex, queries_of(codex))
    usual = ("train", "valid", "test")
    same = recount.left(usual) == recount.left(("train",))
    assert recount.best(recount.left(usual).astype(float), same, usual).convention == Convention(usual)
