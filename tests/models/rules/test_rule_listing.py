"""Rules as rows: each once as it is read, with a weight for each side, in the order that is asked for."""

from types import SimpleNamespace

import numpy as np
import pytest

from kgprobe.models.rules.listing import SORTS, rule_rows
from kgprobe.models.rules.measure import Measure
from kgprobe.models.rules.rule import NO_ATOM, Rules
from kgprobe.models.rules.text import path_facts, rule_text
from rule_oracles import World
from rule_runs import MODELS, family, kept_run

every_model = pytest.mark.parametrize("model", MODELS)


def _relation(number: int) -> str:
    return family().relation_label([number])[0]


@every_model
def test_every_rule_is_listed_once_with_its_weight_for_each_side(model: str) -> None:
    scorer, graph = kept_run(model).scorer, family()
    rules, wanted = scorer.rules, {}
    for i, weight in enumerate(scorer.weights):
        side = "tail weight" if rules.head[i] < graph.num_relations else "head weight"
        wanted.setdefault(rule_text(rules, i, _relation), {})[side] = weight
    rows = rule_rows(scorer, graph, top=10_000)
    assert len(rows) == len(wanted) == len({row["rule"] for row in rows})
    for row in rows:
        own = wanted[row["rule"]]
        assert (row["tail weight"], row["head weight"]) == (own.get("tail weight"), own.get("head weight"))
        assert row["predicts"] == {("tail weight",): "tail", ("head weight",): "head"}.get(tuple(own), "both")
        assert row["rule"].startswith(f"{row['relation']}(x, y) <- ")


@every_model
@pytest.mark.parametrize("sort", SORTS)
def test_the_largest_rules_of_each_relation_come_first(model: str, sort: str) -> None:
    scorer, graph = kept_run(model).scorer, family()
    keys = {
        "weight": lambda row: max(own for own in (row["tail weight"], row["head weight"]) if own is not None),
        "confidence": lambda row: row["confidence"],
        "support": lambda row: row["support"],
    }
    every, few = (rule_rows(scorer, graph, relations=[3, 0], sort=sort, top=top) for top in (10_000, 4))
    for relation in ("grandchild, of", "parentOf"):
        values = [keys[sort](row) for row in every if row["relation"] == relation]
        assert values == sorted(values, reverse=True)
        assert [keys[sort](row) for row in few if row["relation"] == relation] == values[:4]
    assert list(dict.fromkeys(row["relation"] for row in every)) == ["grandchild, of", "parentOf"]


@every_model
def test_support_and_confidence_are_those_of_plain_loops(model: str) -> None:
    scorer, graph = kept_run(model).scorer, family()
    adjacency = scorer.grounder.adjacency
    world = World(adjacency.triples.tolist(), graph.num_entities, graph.num_relations)
    rows = {row["rule"]: row for row in rule_rows(scorer, graph, relations=[3], top=10_000)}
    rules, checked = scorer.rules, 0
    for i in np.flatnonzero(rules.head == 3)[:6]:
        body = [int(atom) for atom in rules.body[i] if atom != NO_ATOM]
        support, pairs, _, _ = world.statistics(3, body)
        row = rows[rule_text(rules, int(i), _relation)]
        if model == "rnnlogic":  # the other one has counted before it believed more facts
            assert (row["support"], row["confidence"]) == (support, pytest.approx(support / pairs))
        checked += 1
    assert checked == 6


@pytest.mark.parametrize("sort", SORTS)
def test_rules_that_nobody_has_measured_are_measured_before_they_are_shown(sort: str) -> None:
    scorer, graph = kept_run("rnnlogic").scorer, family()
    bare = Rules.from_bodies(scorer.rules.relations, scorer.rules.head, scorer.rules.body)
    counted = Measure(scorer.grounder.adjacency).of(bare)
    known, unknown = (
        SimpleNamespace(rules=rules, weights=scorer.weights, grounder=scorer.grounder) for rules in (counted, bare)
    )
    rows = [rule_rows(own, graph, sort=sort, top=3) for own in (known, unknown)]
    assert rows[0] == rows[1]
    assert any(row["support"] for row in rows[0])


def test_a_path_is_the_facts_of_the_rule_as_it_is_read() -> None:
    scorer, graph = kept_run("rnnlogic").scorer, family()
    world = World(graph.triples("train").tolist(), graph.num_entities, graph.num_relations)
    rules, read = scorer.rules, 0
    for i in range(len(rules)):
        body = [int(atom) for atom in rules.body[i] if atom != NO_ATOM]
        path = next((path for x in range(graph.num_entities) for path in world.paths(body, x)), None)
        if path is None:
            continue
        facts = path_facts(rules, i, path)
        assert set(facts) <= world.facts
        text = rule_text(rules, i, _relation)
        relations = [part.split("(")[0] for part in text.split(" <- ")[1].replace("), ", ")\n").split("\n")]
        assert [_relation(relation) for _, relation, _ in facts] == relations
        read += 1
    assert read > 20
