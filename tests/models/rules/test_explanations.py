"""Answers with their reasons: ranks as the engine gives them, sums that add up, paths that are there.

Rules as rows: each once as it is read, with a weight for each side, in the order that is asked for.
"""

import re
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

import kgprobe as kp
from kgprobe.models.rules.explanations import SORTS, Answers, Explainer, RuleScorer, rule_rows
from kgprobe.models.rules.rule_statistics import Measure
from kgprobe.models.rules.rule_table import NO_ATOM, Rules, path_triples, rule_text
from kgprobe.models.rules.written_queries import WrittenQuery
from kgprobe.predict.scorers import SIDES
from kgprobe.train.learners import trained_run
from kgprobe.train.trained_models import open_rules
from rule_oracles import World
from rule_runs import MODELS, family, kept_run
from rule_trainings import LITTLE, quick_rules
from trainings import trained

every_model = pytest.mark.parametrize("model", MODELS)

GRANDCHILD, _, GRANDPARENT = next(triple for triple in family().triples("test").tolist() if triple[1] == 3)

QUESTIONS = {
    "a child": WrittenQuery("tail", 3, 0),
    "a parent": WrittenQuery("head", 3, 0),
    "a grandparent": WrittenQuery("tail", GRANDCHILD, 3),
    "a grandchild": WrittenQuery("head", GRANDPARENT, 3),
}

every_question = pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)


@cache
def _explainer(model: str) -> Explainer:
    run = open_rules(kept_run(model).run, family())
    return Explainer(run.scorer, run.graph)


@cache
def _all(model: str, question: WrittenQuery) -> Answers:
    return _explainer(model).answers(question, top=1_000, rules=1_000)


@every_model
@every_question
def test_ranks_are_those_of_the_engine_for_every_candidate(model: str, question: WrittenQuery) -> None:
    graph, found = family(), _all(model, question)
    assert sorted(answer.entity for answer in found.answers) == list(range(graph.num_entities))
    ends = [
        (question.given, own.entity) if question.side == "tail" else (own.entity, question.given)
        for own in found.answers
    ]
    triples = [[head, question.relation, tail] for head, tail in ends]
    ranks = kp.rank(kept_run(model).run, graph, triples=triples, sides=question.side)
    assert [answer.rank for answer in found.answers] == ranks.rank.tolist()
    assert [answer.ties for answer in found.answers] == ranks.ties.tolist()
    assert [answer.candidates for answer in found.answers] == ranks.candidates.tolist()
    for answer, triple in zip(found.answers, triples, strict=True):
        assert answer.known == tuple(split for split, own in graph.splits.items() if triple in own.tolist())


@every_model
@every_question
def test_scores_fall_and_are_the_sum_of_their_parts(model: str, question: WrittenQuery) -> None:
    scores = [answer.score for answer in _all(model, question).answers]
    assert scores == sorted(scores, reverse=True)
    for answer in _all(model, question).answers:
        assert sum(answer.parts.values()) == pytest.approx(answer.score, abs=1e-4)
        assert answer.more == 0
        gains = [reason.gain for reason in answer.reasons]
        assert gains == sorted(gains, reverse=True)
        assert bool(answer.reasons) or answer.parts["rules"] == 0


@every_model
@every_question
def test_a_rule_leads_to_an_answer_along_as_many_paths_as_there_are(model: str, question: WrittenQuery) -> None:
    explainer, graph = _explainer(model), family()
    world = World(explainer.scorer.grounder.adjacency.triples.tolist(), graph.num_entities, graph.num_relations)
    stated = {tuple(triple) for triple in graph.triples("train").tolist()}
    asked = question.relation + (graph.num_relations if question.side == "head" else 0)
    rules, names = explainer.rules, graph.relation_label(range(graph.num_relations))
    texts = {rule_text(rules, int(i), names.__getitem__): i for i in np.flatnonzero(rules.head == asked)}
    seen = 0
    for answer in _all(model, question).answers:
        own = world.triple(question.given, asked, answer.entity)
        without = own if model == "plogicnet" else None  # which never lets a triple speak for itself
        for reason in answer.reasons:
            body = [int(atom) for atom in rules.body[texts[reason.rule]] if atom != NO_ATOM]
            assert reason.paths == world.ends(body, question.given, without)[answer.entity]
            assert reason.alone == explainer.weights[texts[reason.rule]]
            triples = [_fact(part) for part in re.split(r"(?<=\)), (?!of\()", reason.path)]
            assert len(triples) == len(body)
            for triple, inferred in triples:
                assert triple in world.triples
                assert inferred == (triple not in stated)
            seen += 1
    assert seen > 0


def _fact(text: str) -> tuple[tuple[int, int, int], bool]:
    found = re.fullmatch(r"(.+)\((\S+), (\S+)\)( \(inferred\))?", text)
    assert found is not None
    relation, head, tail, inferred = found.groups()
    graph = family()
    people, relations = (
        graph.entity_label(range(graph.num_entities)),
        graph.relation_label(range(graph.num_relations)),
    )
    return (people.index(head), relations.index(relation), people.index(tail)), inferred is not None


@every_model
def test_the_best_and_those_that_are_named_are_shown(model: str) -> None:
    explainer, question = _explainer(model), WrittenQuery("tail", 3, 0)
    every = [answer.entity for answer in _all(model, question).answers]
    named = [every[-1], every[0], every[7]]
    found = explainer.answers(question, named, top=3, rules=1)
    assert [answer.entity for answer in found.answers] == [*every[:3], every[7], every[-1]]
    assert all(len(answer.reasons) <= 1 for answer in found.answers)
    assert [answer.entity for answer in explainer.answers(question, [every[5]], top=0).answers] == [every[5]]


@every_model
def test_new_answers_leave_out_those_that_are_known_unless_they_are_named(model: str) -> None:
    explainer, question = _explainer(model), QUESTIONS["a grandchild"]
    every = _all(model, question).answers
    new = [answer.entity for answer in every if not answer.known]
    known = [answer.entity for answer in every if answer.known]
    assert known
    assert [answer.entity for answer in explainer.answers(question, top=4, new=True).answers] == new[:4]
    assert {answer.entity for answer in explainer.answers(question, known[:1], top=1_000, new=True).answers} == {
        *new,
        known[0],
    }


def test_an_answer_reads_well() -> None:
    found = _all("plogicnet", WrittenQuery("tail", 3, 0))
    text, rows = str(found), found.to_rows()
    assert text.startswith("parentOf(tree0-person03, ?)\n\n")
    without = [answer for answer in found.answers if not answer.reasons]
    assert text.count("no rule leads to it") == len(without)
    assert len(rows) == sum(max(len(answer.reasons), 1) for answer in found.answers)
    assert all(row["rule"] is None for row in rows if row["candidate"] in {answer.name for answer in without})
    few = str(_explainer("plogicnet").answers(WrittenQuery("tail", 3, 0), top=1, rules=0))
    assert re.search(r"\n  \d+ rules lead to it$", few)


@every_model
@pytest.mark.parametrize("lacking", ["a relation without rules", "one relation", "entities without neighbours"])
def test_graphs_that_leave_little_to_reason_with_are_explained(model: str, lacking: str) -> None:
    graph, settings = LITTLE[lacking], quick_rules(model, seeds=(0,), select=("MRR",))
    _, keep = trained(settings, graph)
    scorer = trained_run(settings, graph, keep.load_best("MRR", 0)[0])
    assert isinstance(scorer, RuleScorer)
    assert len(rule_rows(scorer, graph, sort="confidence")) <= len(scorer.rules)
    for side in SIDES:
        asked = WrittenQuery(side, 7, graph.num_relations - 1)
        found = Explainer(scorer, graph).answers(asked, [6], top=1)
        triples = [[7, asked.relation, 6] if side == "tail" else [6, asked.relation, 7]]
        own = next(answer for answer in found.answers if answer.entity == 6)
        assert [own.rank] == kp.rank(scorer, graph, triples=triples, sides=side).rank.tolist()
        assert all(reason.path for answer in found.answers for reason in answer.reasons)


def _relation(number: int) -> str:
    return family().relation_label([number])[0]


@every_model
def test_every_rule_is_listed_once_with_its_weight_for_each_side(model: str) -> None:
    scorer, graph = kept_run(model).scorer, family()
    rules, expected = scorer.rules, {}
    for i, weight in enumerate(scorer.weights):
        side = "tail weight" if rules.head[i] < graph.num_relations else "head weight"
        expected.setdefault(rule_text(rules, i, _relation), {})[side] = weight
    rows = rule_rows(scorer, graph, top=10_000)
    assert len(rows) == len(expected) == len({row["rule"] for row in rows})
    for row in rows:
        own = expected[row["rule"]]
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
        if model == "rnnlogic":  # the other one has counted before it believed more triples
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


def test_a_path_is_the_triples_of_the_rule_as_it_is_read() -> None:
    scorer, graph = kept_run("rnnlogic").scorer, family()
    world = World(graph.triples("train").tolist(), graph.num_entities, graph.num_relations)
    rules, read = scorer.rules, 0
    for i in range(len(rules)):
        body = [int(atom) for atom in rules.body[i] if atom != NO_ATOM]
        path = next((path for x in range(graph.num_entities) for path in world.paths(body, x)), None)
        if path is None:
            continue
        triples = path_triples(rules, i, path)
        assert set(triples) <= world.triples
        text = rule_text(rules, i, _relation)
        relations = [part.split("(")[0] for part in text.split(" <- ")[1].replace("), ", ")\n").split("\n")]
        assert [_relation(relation) for _, relation, _ in triples] == relations
        read += 1
    assert read > 20
