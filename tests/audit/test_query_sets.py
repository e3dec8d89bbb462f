import numpy as np
import pytest

import kgprobe as kp
from kgprobe.ranks import concatenate
from planting import only, planted, silent, unclean


def some(ranks: kp.Ranks, kept: int) -> kp.Ranks:
    return ranks.filter(np.arange(len(ranks)) < kept)


@pytest.mark.parametrize("told", [True, False], ids=["with graph", "without graph"])
def test_missing_queries_are_counted(on_nations, nations, told: bool) -> None:
    files = {name: silent(ranks) for name, ranks in on_nations.items()}
    assert unclean(files, nations if told else None) == []
    files["CP"] = silent(some(on_nations["CP"], 390))
    found = only(files, nations if told else None)
    assert (found.models, found.kind, found.severity, found.rows) == (("CP",), "queries", "error", 12)
    assert "12 of the 402" in found.message


def test_queries_that_no_other_file_has_are_counted(on_nations, nations) -> None:
    files = {name: silent(some(ranks, 390)) for name, ranks in on_nations.items()}
    files["CP"] = silent(on_nations["CP"])
    found = only(files)
    assert (found.models, found.rows) == (("CP",), 12)
    assert "most other files do not have" in found.message


def test_of_two_files_each_misses_what_the_other_has(on_nations) -> None:
    one, other = silent(on_nations["CP"]), silent(on_nations["RESCAL"])
    rows = np.arange(len(one))
    found = unclean({"one": one.filter(rows >= 5), "other": other.filter(rows < 400)})
    assert [(finding.models, finding.rows) for finding in found] == [(("one",), 5), (("other",), 2)]


def test_the_valid_split_is_named(on_nations, nations) -> None:
    files = {name: silent(ranks) for name, ranks in on_nations.items()}
    files["other"] = silent(kp.rank("relation-frequency", nations, split="valid", filter="all"))
    found = only(files, nations)
    assert (found.models, found.kind, found.rows) == (("other",), "queries", 2 * len(nations.triples("valid")))
    assert found.message.startswith("The queries are those of the valid split instead of the test split")
    found = only(files)
    assert (found.models, found.kind) == (("other",), "queries")


def test_the_valid_split_is_the_one_finding_of_a_file_that_says_so(on_nations, nations) -> None:
    other = kp.rank("relation-frequency", nations, split="valid")
    assert "those of the valid split" in only({**on_nations, "other": other}, nations).message


def test_a_file_of_another_split_is_looked_at_on_its_own(on_nations, nations) -> None:
    late = kp.rank("relation-frequency", nations, split="valid")
    late = planted(late, rank=np.minimum(np.floor(late.rank) + 1, late.candidates), ties=None)
    found = unclean({**on_nations, "late": late}, nations)
    assert [(finding.models, finding.kind) for finding in found] == [(("late",), "queries"), (("late",), "rank values")]


def test_files_of_the_valid_split_alone_are_clean(nations) -> None:
    files = {name: kp.rank(name, nations, split="valid") for name in ("relation-frequency", "random")}
    assert unclean(files, nations) == []


@pytest.mark.parametrize("graph", ["nations", "umls", "codex"])
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "among others"])
def test_swapped_heads_and_tails_are_one_finding(request, graph: str, alone: bool) -> None:
    files, knowledge = request.getfixturevalue(f"on_{graph}"), request.getfixturevalue(graph)
    whole = files["CP"]
    turned = planted(whole, head=whole.tail, tail=whole.head)
    found = only({**({} if alone else files), "CP": turned}, knowledge)
    assert (found.models, found.kind, found.rows) == (("CP",), "queries", len(whole))
    known = {tuple(triple) for triple in knowledge.triples("test").tolist()}
    right = 2 * sum((t, r, h) in known for h, r, t in known)
    assert found.message.startswith(
        f"Head and tail are swapped: {right:,} of {len(whole):,} rows are triples of the test"
    )


def test_triples_that_are_in_no_split_are_named(on_nations, nations) -> None:
    whole = silent(on_nations["CP"])
    moved = planted(whole, relation=(whole.relation + 1) % nations.num_relations)
    found = unclean({"CP": moved, "RESCAL": silent(on_nations["RESCAL"])}, nations)
    known = {tuple(triple) for triple in nations.triples().tolist()}
    count = nations.num_relations
    foreign = sum((h, (r + 1) % count, t) not in known for h, r, t in nations.triples("test").tolist())
    lost = [finding for finding in found if "in no split of nations" in finding.message]
    assert [(finding.models, finding.rows) for finding in lost] == [(("CP",), 2 * foreign)]


def test_test_triples_in_train_are_a_leak(nations) -> None:
    train, test = nations.triples("train"), nations.triples("test")
    leaky = kp.KnowledgeGraph.from_triples(train=np.concatenate([train, test[:7]]), test=test, num_entities=14)
    found = only({"mine": kp.rank("relation-frequency", leaky)}, leaky)
    assert (found.severity, found.rows) == ("warning", 14)
    assert "The triples of 14 queries of the test split are also in train" in found.message


@pytest.mark.parametrize("side", ["head", "tail"])
def test_a_missing_side_is_named(on_nations, nations, side: str) -> None:
    files = {name: silent(ranks) for name, ranks in on_nations.items()}
    gone = on_nations["CP"].predicts_tail == (side == "tail")
    files["CP"] = silent(on_nations["CP"].filter(~gone))
    for graph in (nations, None):
        found = only(files, graph)
        assert (found.models, found.kind, found.rows) == (("CP",), "sides", 201)
        assert f"The {side} side is missing" in found.message


def test_files_that_all_lack_the_same_part_of_a_split_are_told_once(on_nations, nations) -> None:
    kept = np.tile(np.arange(201) < 150, 2)
    files = {name: silent(ranks.filter(kept)) for name, ranks in on_nations.items()}
    found = only(files, nations)
    assert (found.models, found.severity) == (tuple(files), "warning")
    assert "51 triples of the test split are in no file" in found.message


def test_facts_that_were_chosen_are_no_split(nations) -> None:
    chosen = kp.rank("relation-frequency", nations, triples=nations.triples("test")[:50])
    assert unclean({"mine": chosen}, nations) == []


def test_the_two_sides_may_come_in_any_order(on_nations, nations) -> None:
    ranks = silent(on_nations["CP"])
    turned = concatenate([ranks.filter(~ranks.predicts_tail), ranks.filter(ranks.predicts_tail)])
    assert unclean({"CP": turned, "RESCAL": silent(on_nations["RESCAL"])}, nations) == []


def test_what_half_of_the_files_have_is_no_majority(on_nations) -> None:
    whole, short = silent(on_nations["CP"]), silent(some(on_nations["CP again"], 390))
    files = {"a": whole, "b": silent(on_nations["RESCAL"]), "c": short, "d": silent(some(on_nations["frequency"], 390))}
    assert [(finding.models, finding.rows) for finding in unclean(files)] == [(("a",), 12), (("b",), 12)]
