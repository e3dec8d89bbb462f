"""``kgprobe rules``: what is shown, in which order and form, and what cannot be shown."""

import csv
import io
import json
from pathlib import Path

import pytest

import kgprobe as kp
from kgprobe.models.rules.rule_table import Rules, rule_text
from rule_runs import MODELS, SEEDS, family, kept_run
from runs import TARGETS

every_model = pytest.mark.parametrize("model", MODELS)

HEADINGS = ["relation", "rule", "predicts", "tail weight", "head weight", "confidence", "support"]


@every_model
def test_the_best_rule_of_every_relation_is_shown(kgprobe, model: str) -> None:
    kept = kept_run(model)
    done = kgprobe("rules", kept.run, "--graph", kept.graph)
    assert done.code == 0, done.err
    head, _, *rows = done.out.splitlines()
    assert head.replace("   ", "\t").split("\t")[0] == "relation"
    assert [row.split("(")[0].rsplit("  ", 1)[-1].strip() for row in rows] == [
        label for label in family().relation_label(range(5)) if f"{label}(x, y) <- " in done.out
    ]
    assert f"rules for {len(rows)} relations" in done.err
    assert all(" <- " in row for row in rows)


@every_model
@pytest.mark.parametrize("sort", ["weight", "confidence", "support"])
def test_rules_of_a_relation_are_data_too(kgprobe, model: str, sort: str) -> None:
    kept = kept_run(model)
    how = ["--graph", kept.graph, "--relation", "grandchild, of", "--relation", "0", "--top", 3, "--sort", sort]
    rows = json.loads(kgprobe("rules", kept.run, *how, "--format", "json").out)
    assert list(rows[0]) == HEADINGS
    assert [row["relation"] for row in rows] == ["grandchild, of"] * 3 + ["parentOf"] * 3
    again = list(csv.DictReader(io.StringIO(kgprobe("rules", kept.run, *how, "--format", "csv").out)))
    assert [row["rule"] for row in again] == [row["rule"] for row in rows]
    for format_ in ("latex", "markdown"):
        assert kgprobe("rules", kept.run, *how, "--format", format_).out.count("(x, y)") >= 6


def test_the_rule_that_makes_grandchildren_is_found_and_can_be_read(kgprobe) -> None:
    kept = kept_run("plogicnet")
    done = kgprobe("rules", kept.run, "--graph", kept.graph, "--relation", "grandchild, of", "--sort", "confidence")
    assert "grandchild, of(x, y) <- childOf(x, z), childOf(z, y)" in done.out


def test_a_seed_and_a_metric_choose_the_checkpoint(kgprobe) -> None:
    kept = kept_run("rnnlogic")
    by_default, first, other = (
        kgprobe("rules", kept.run, "-g", kept.graph, *which).out
        for which in ([], ["--seed", SEEDS[0], "--select", TARGETS[0]], ["--seed", SEEDS[1]])
    )
    assert by_default == first != other
    checkpoint = kept.run / "best" / "mrr" / f"seed-{SEEDS[1]}.safetensors"
    by_metric = kgprobe("rules", kept.run, "-g", kept.graph, "--seed", SEEDS[1], "--select", "mrr").out
    assert kgprobe("rules", checkpoint, "-g", kept.graph).out == by_metric


def test_the_graph_is_found_by_the_name_that_the_run_has_kept(kgprobe, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = kept_run("rnnlogic")
    monkeypatch.setenv("KGPROBE_DATA", str(kept.graph.parent))
    assert kgprobe("rules", kept.run).out == kgprobe("rules", kept.run, "--graph", kept.graph).out


def test_a_graph_that_is_not_found_or_another_one_is_told(
    kgprobe, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, graph_dir: Path
) -> None:
    kept = kept_run("rnnlogic")
    monkeypatch.delenv("KGPROBE_DATA", raising=False)
    done = kgprobe("rules", kept.run)
    assert done.code == 1
    assert "its graph was not found" in done.err
    assert "kin: no such graph" in done.err
    assert "--graph" in done.err
    graph_dir.rename(tmp_path / "kin")
    monkeypatch.setenv("KGPROBE_DATA", str(tmp_path))
    done = kgprobe("rules", kept.run)
    assert (done.code, "it was trained on another graph than kin" in done.err) == (1, True)
    done = kgprobe("rules", kept.run, "--graph", tmp_path / "kin")
    assert (done.code, "this checkpoint is of another graph" in done.err) == (1, True)


def test_a_model_of_embeddings_has_no_rules(kgprobe) -> None:
    kept = kept_run("distmult")
    done = kgprobe("rules", kept.run, "--graph", kept.graph)
    assert (done.code, done.out) == (2, "")
    assert "DistMult has no rules" in done.err
    assert "kgprobe train rnnlogic" in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--relation", "parentof", "--relation", "nobody"], ["'parentof' is no known relation; nearest: parentOf"]),
        (["--seed", "4"], ["it has no seed 4; there are: 3, 8"]),
        (["--select", "Hits@1"], ["Hits@1 is not among its selection metrics; there are: PROBE(alpha=1,beta=0), MRR"]),
        (["--select", "nonsense"], ["nonsense"]),
        (["--sort", "beauty"], ["beauty"]),
        (["--top", "0"], ["--top"]),
    ],
)
def test_what_makes_no_sense_is_refused(kgprobe, arguments: list[str], said: list[str]) -> None:
    kept = kept_run("rnnlogic")
    done = kgprobe("rules", kept.run, "--graph", kept.graph, *arguments)
    assert (done.code, done.out) == (2, "")
    assert all(text in done.err for text in said), done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(("format_", "printed"), [("table", ""), ("json", "[]\n")])
def test_a_model_may_have_no_rules(kgprobe, tmp_path: Path, format_: str, printed: str) -> None:
    graph, run = tmp_path / "pair", tmp_path / "run"
    graph.mkdir()
    for split in ("train", "valid", "test"):
        (graph / f"{split}.txt").write_text("Ada\tknows\tBob\n", encoding="utf-8")
    kp.fit("plogicnet", graph, run, threads=1, dimension=2, epochs=3, validate_every=1)
    done = kgprobe("rules", run, "-g", graph, "-f", format_)
    assert (done.code, done.out) == (0, printed)
    assert "has 0 rules" in done.err


def test_what_is_no_run_is_refused(kgprobe, tmp_path: Path) -> None:
    kept = kept_run("rnnlogic")
    for path, said in ((tmp_path, "it holds neither"), (tmp_path / "none", "there is no such file or directory")):
        done = kgprobe("rules", path)
        assert (done.code, said in done.err) == (2, True)
    done = kgprobe("rules", kept.run / "best" / "mrr" / "seed-3.safetensors", "--seed", 3)
    assert (done.code, "one metric and one seed" in done.err) == (2, True)
    done = kgprobe("rules", kept.run / "state.safetensors")
    assert (done.code, "not a checkpoint" in done.err) == (1, True)


@every_model
def test_rules_are_shown_by_name_and_asked_for_by_name_or_label(kgprobe, model: str, tmp_path: Path) -> None:
    kept, names = kept_run(model), tmp_path / "names.json"
    names.write_text(json.dumps({"grandchild, of": "is a grandchild of", "childOf": "is a child of"}))
    how = ["rules", kept.run, "--graph", kept.graph, "--names", names, "--sort", "confidence"]
    done = kgprobe(*how, "--relation", "is a grandchild of")
    assert done.code == 0, done.err
    assert "is a grandchild of(x, y) <- " in done.out
    assert "is a child of(x, z)" in done.out
    assert "grandchild, of" not in done.out
    assert kgprobe(*how, "--relation", "grandchild, of").out == done.out
    rows = json.loads(kgprobe(*how, "--relation", "grandchild, of", "-f", "json").out)
    assert {(row["relation"], row["relation_name"]) for row in rows} == {("grandchild, of", "is a grandchild of")}


def test_rules_of_codex_can_be_read(data: Path) -> None:
    graph = kp.load_graph(data / "graphs" / "codex-s")
    ids = {label: i for i, label in enumerate(graph.relation_label(range(graph.num_relations)))}
    rule = Rules.from_bodies(graph.num_relations, [ids["P1412"]], [[ids["P27"], ids["P37"]]])
    by_label, by_name = (
        rule_text(rule, 0, lambda relation, of=of: of([relation])[0])
        for of in (graph.relation_label, graph.relation_name)
    )
    assert by_label == "P1412(x, y) <- P27(x, z), P37(z, y)"
    assert by_name == (
        "languages spoken, written, or signed(x, y) <- country of citizenship(x, z), official language(z, y)"
    )
