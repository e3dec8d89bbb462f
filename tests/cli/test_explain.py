"""``kgprobe explain``: why candidates are where they are."""

import base64
import csv
import io
import json
import re
from pathlib import Path

import pytest

import kgprobe as kp
from kgprobe.report.page.payload import unpack
from kgprobe.train.trained_models import explain
from rule_runs import MODELS, family, kept_run

every_model = pytest.mark.parametrize("model", MODELS)

GRANDCHILD, _, GRANDPARENT = next(fact for fact in family().triples("test").tolist() if fact[1] == 3)

CHILD_NAME, PARENT_NAME = family().entity_label([GRANDCHILD, GRANDPARENT])


@every_model
def test_the_answer_of_a_test_fact_is_where_the_rank_file_has_it(kgprobe, model: str) -> None:
    kept = kept_run(model)
    ranks = kp.read_ranks(kept.ranks)
    asked = {"tail": f"{CHILD_NAME}, grandchild, of, ?", "head": f"?, grandchild, of, {PARENT_NAME}"}
    for side, query in asked.items():
        target = PARENT_NAME if side == "tail" else CHILD_NAME
        done = kgprobe("explain", kept.run, "-g", kept.graph, "-q", query, "-c", target, "--top", 0, "-f", "json")
        assert done.code == 0, done.err
        row = json.loads(done.out)[0]
        of_fact = (ranks.head == GRANDCHILD) & (ranks.relation == 3) & (ranks.tail == GRANDPARENT)
        assert ranks.seed is not None
        own = of_fact & (ranks.predicts_tail == (side == "tail")) & (ranks.seed == 3)
        assert (row["candidate"], [row["rank"]]) == (target, ranks.rank[own].tolist())
        assert ([row["candidates"]], row["known"]) == (ranks.candidates[own].tolist(), "test")


@every_model
def test_what_is_printed_can_be_read(kgprobe, model: str) -> None:
    kept = kept_run(model)
    query = f"{CHILD_NAME}, grandchild, of, ?"
    done = kgprobe("explain", kept.run, "-g", kept.graph, "-q", query, "--top", 2, "--rules", 1)
    assert done.code == 0, done.err
    assert done.out == f"{explain(kept.run, query, graph=kept.graph, top=2, rules=1)}\n"
    title, *blocks = done.out.rstrip("\n").split("\n\n")
    assert title == f"grandchild, of({CHILD_NAME}, ?)"
    assert len(blocks) == 2
    for block in blocks:
        first, score, rule, reason, *_ = block.split("\n")
        assert ": rank 1 of " in first
        assert score.startswith("  score ")
        assert rule.startswith("  grandchild, of(x, y) <- ")
        assert reason.startswith("    gain ")
        assert f"({CHILD_NAME}, " in reason or f", {CHILD_NAME})" in reason


def test_tabs_ids_and_new_answers(kgprobe) -> None:
    kept = kept_run("rnnlogic")
    how = ["explain", kept.run, "-g", kept.graph, "--top", 3, "-f", "csv"]
    by_name = kgprobe(*how, "-q", f"?\tgrandchild, of\t{PARENT_NAME}").out
    assert by_name == kgprobe(*how, "-q", f"?, 3, {GRANDPARENT}").out
    rows = list(csv.DictReader(io.StringIO(by_name)))
    assert any(row["known"] for row in rows)
    new = list(csv.DictReader(io.StringIO(kgprobe(*how, "-q", f"?, 3, {GRANDPARENT}", "--new").out)))
    assert len({row["candidate"] for row in new}) == 3
    assert not any(row["known"] for row in new)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--query", "nobody"], ["invalid query 'nobody'", '"head, relation, ?"']),
        (["--query", "tree0-person3, parentof, ?"], ["is no known entity; nearest: ", "nearest: parentOf"]),
        (["--query", "0, 0, ?", "-c", "you", "-c", "me"], ["'you' is no known entity", "'me' is no known entity"]),
        (["--query", "0, 0, ?", "--seed", "5"], ["it has no seed 5"]),
        ([], ["--query"]),
    ],
)
def test_what_makes_no_sense_is_refused(kgprobe, arguments: list[str], said: list[str]) -> None:
    kept = kept_run("rnnlogic")
    done = kgprobe("explain", kept.run, "--graph", kept.graph, *arguments)
    assert (done.code, done.out) == (2, "")
    assert all(text in done.err for text in said), done.err
    assert "Traceback" not in done.err


def test_a_model_of_embeddings_cannot_explain_itself(kgprobe) -> None:
    kept = kept_run("distmult")
    done = kgprobe("explain", kept.run, "--graph", kept.graph, "--query", "0, 0, ?")
    assert (done.code, "DistMult has no rules" in done.err) == (2, True)


def test_a_report_links_queries_to_rules(kgprobe, tmp_path: Path) -> None:
    kept, other = kept_run("rnnlogic"), kept_run("distmult")
    page = tmp_path / "page.html"
    done = kgprobe("report", kept.ranks, other.ranks, "-g", kept.graph, "--rules", kept.run, "-o", page, "-m", "MRR")
    assert done.code == 0, done.err
    carried = re.search(r'id="data">([^<]*)<', page.read_text(encoding="utf-8"))
    assert carried is not None
    header, _ = unpack(base64.b64decode(carried[1]))
    assert header["models"][header["reasons"][0]["model"]]["name"].startswith("RNNLogic")
    assert len(header["reasons"][0]["queries"]) == header["queries"]


def test_a_report_refuses_rules_that_it_cannot_show(kgprobe, tmp_path: Path) -> None:
    kept, other = kept_run("rnnlogic"), kept_run("distmult")
    done = kgprobe("report", other.ranks, "-g", kept.graph, "--rules", kept.run, "-o", tmp_path / "page.html")
    assert (done.code, "has produced none of them" in done.err) == (2, True)
    done = kgprobe("report", kept.ranks, "-g", kept.graph, "--rules", kept.run, "-o", tmp_path / "table.md")
    assert (done.code, "only an HTML page can show rules" in done.err) == (2, True)
    assert not list(tmp_path.iterdir())


def test_queries_are_asked_and_explained_by_name(kgprobe, tmp_path: Path) -> None:
    kept, graph, names = kept_run("plogicnet"), family(), tmp_path / "names.json"
    first, second, third = graph.entity_label([0, 1, 2])
    names.write_text(json.dumps({first: "Ada", second: "Bob", third: "Bob", "childOf": "is a child of"}))
    how = ["explain", kept.run, "--graph", kept.graph, "--names", names, "--top", 1]
    done = kgprobe(*how, "--query", "Ada, is a child of, ?")
    assert done.code == 0, done.err
    assert done.out.startswith("is a child of(Ada, ?)\n")
    assert kgprobe(*how, "--query", f"{first}, childOf, ?").out == done.out
    assert kgprobe(*how, "--query", f"Bob ({third}), childOf, ?").out.startswith(f"is a child of(Bob ({third}), ?)")
    done = kgprobe(*how, "--query", "Bob, childOf, ?")
    assert done.code == 2
    assert f"'Bob' is the name of more than one entity: {second}, {third}; give the label or the id" in done.err
    (row,) = json.loads(kgprobe(*how, "-q", "Ada, childOf, ?", "-c", "Ada", "--top", 0, "--rules", 0, "-f", "json").out)
    assert (row["candidate"], row["candidate_name"]) == (first, "Ada")
    by_python = kp.explain(kept.run, "Ada, childOf, ?", graph=kept.graph, names=names, top=1)
    assert by_python.question == "is a child of(Ada, ?)"
