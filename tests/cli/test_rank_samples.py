import json
from pathlib import Path

import numpy as np
import pytest

import kgprobe as kp
from ranking import graph_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a graph and two files of negatives of its test triples."""
    graph = graph_of(seed=1, entities=40, facts=120)
    _write(graph, tmp_path / "graph")
    return tmp_path


def _write(graph: kp.KnowledgeGraph, folder: Path) -> None:
    folder.mkdir()
    (folder / "entities.dict").write_text("".join(f"{i}\te{i}\n" for i in range(graph.num_entities)))
    (folder / "relations.dict").write_text("".join(f"{i}\tr{i}\n" for i in range(graph.num_relations)))
    for split in ("train", "valid", "test"):
        lines = (f"e{h}\tr{r}\te{t}\n" for h, r, t in graph.triples(split).tolist())
        (folder / f"{split}.txt").write_text("".join(lines))
    rng = np.random.default_rng(0)
    count = len(graph.triples("test"))
    for name in ("few", "other"):
        np.savez(
            folder.parent / f"{name}.npz",
            **{f"{side}_neg": rng.integers(0, 40, (count, 7)) for side in ("head", "tail")},
        )


def ranked(kgprobe, folder: Path, model: str, name: str, *options: object) -> Path:
    out = folder / f"{name}.parquet"
    done = kgprobe("rank", model, "--graph", folder / "graph", "-o", out, *options)
    assert done.code == 0, done.err
    return out


def test_estimates_are_shown_with_their_intervals(kgprobe, folder: Path) -> None:
    file = ranked(kgprobe, folder, "entity-frequency", "mine", "--sample", 10)
    shown = kgprobe("eval", file, "-m", "MR", "-m", "MRR")
    assert shown.code == 0
    assert "[" in shown.out
    assert "In [brackets]: 95 % intervals for the sampling of candidates" in shown.out
    assert "estimated from a sample of 10 candidates, seed 0" in shown.err
    rows = json.loads(kgprobe("eval", file, "-m", "MR", "--format", "json").out)
    full = json.loads(kgprobe("eval", ranked(kgprobe, folder, "entity-frequency", "all"), "-m", "MR", "-f", "json").out)
    assert rows[0]["low"] < rows[0]["value"] < rows[0]["high"]
    assert rows[0]["level"] == 0.95
    assert rows[0]["sample"] == "estimated from a sample of 10 candidates, seed 0"
    assert rows[0]["low"] - 2 < full[0]["value"] < rows[0]["high"] + 2
    assert (full[0]["level"], full[0]["sample"]) == (None, None)


def test_typed_candidates_and_a_seed(kgprobe, folder: Path) -> None:
    one = ranked(kgprobe, folder, "entity-frequency", "one", "--sample", 5, "--by", "relation-type", "--seed", 4)
    again = ranked(kgprobe, folder, "entity-frequency", "two", "--sample", 5, "--by", "relation-type", "--seed", 4)
    assert one.read_bytes() == again.read_bytes()
    sample = kp.read_ranks(one).info.sample
    assert sample is not None
    assert (sample.negatives, sample.exact, sample.seed) == (5, "relation-type", 4)
    refused = kgprobe(
        "rank", "random", "--graph", folder / "graph", "-o", folder / "x.parquet", "--by", "relation-type"
    )
    assert refused.code == 2
    assert "--sample" in refused.err


def test_the_order_of_two_models_may_not_be_settled(kgprobe, folder: Path) -> None:
    files = [ranked(kgprobe, folder, "random", f"r{seed}", "--sample", 10, "--seed", seed) for seed in (1, 2)]
    shown = kgprobe("eval", *files, "-m", "MRR")
    assert shown.code == 0
    assert "is not settled by the sample" in shown.err
    compared = kgprobe("compare", *files, "-m", "MRR", "-m", "MR")
    assert compared.code == 0
    assert "settled" in compared.out
    assert "MRR: the order of" in compared.err
    rows = json.loads(kgprobe("compare", *files, "-m", "MRR", "-f", "json").out)
    assert rows[0]["settled"] is False
    assert rows[0]["low"] <= 0 <= rows[0]["high"]


@pytest.mark.parametrize("command", [("surface",), ("report", "-o", "page.html"), ("decide",)])
def test_other_commands_refuse_estimates(kgprobe, folder: Path, command: tuple[str, ...], monkeypatch) -> None:
    monkeypatch.chdir(folder)
    file = ranked(kgprobe, folder, "random", "mine", "--sample", 10)
    done = kgprobe(command[0], file, *command[1:])
    assert done.code == 1
    assert "estimates from a sample of candidates" in done.err
    assert "kgprobe eval" in done.err


def test_every_command_warns_of_fixed_negatives(kgprobe, folder: Path) -> None:
    one, other = (
        ranked(kgprobe, folder, model, model, "--candidates", folder / "few.npz")
        for model in ("random", "entity-frequency")
    )
    said = "sampled, 7 negatives"
    assert said in kgprobe("eval", one, "-m", "MRR").err
    assert said in kgprobe("surface", one).err
    compared = kgprobe("compare", one, other, "-m", "MRR", "--replicates", 100, "--permutations", 100)
    assert said in compared.out + compared.err
    reported = kgprobe("report", one, other, "-o", folder / "page.html", "--replicates", 100)
    assert reported.code == 0, reported.err
    assert said in reported.err + reported.out
    assert said in kgprobe("decide", one, other, "--alpha", 1, "--beta", 0, "--replicates", 100).err


def test_the_audit_refuses_different_samples(kgprobe, folder: Path) -> None:
    few, other = (
        ranked(kgprobe, folder, "random", name, "--candidates", folder / f"{name}.npz", "--name", name)
        for name in ("few", "other")
    )
    full = ranked(kgprobe, folder, "random", "all", "--name", "all")
    for files, said in (((few, other), "sampled in different ways"), ((few, full), "ranked among all candidates")):
        done = kgprobe("check", *files, "--graph", folder / "graph", "--format", "json")
        errors = [row["finding"] for row in json.loads(done.out) if row["severity"] == "error"]
        assert done.code == 1
        assert any(said in finding for finding in errors), errors
    compared = kgprobe("compare", few, other, "-m", "MRR", "--replicates", 100, "--permutations", 100)
    assert "not tested" in compared.out + compared.err
