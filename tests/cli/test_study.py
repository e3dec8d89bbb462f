"""``kgprobe study``: verdicts of all sources in every format, the list of work, and errors that name options."""

import csv
import io
import json
import re
import signal
from pathlib import Path

import pytest

from kgprobe.studies import study_work
from kgprobe.studies.study_file import read_study
from study_folders import BETTER, study_text, training, write_graph, write_ranks, write_study

OWN = {"Chance": 'model = "random"', "Entities": 'model = "entity-frequency"', "Relations": training()}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A study of two graphs, of which one has ranks."""
    for seed, name in enumerate(("small", "large")):
        graph = write_graph(tmp_path, name, seed)
    write_ranks(tmp_path / "ranks", graph)
    other = BETTER.replace('name = "better"', 'name = "on large"').replace("GRAPH", "large")
    claims = BETTER + other.replace("Frequencies", "f" * 99)
    write_study(tmp_path, study_text(["small", "large"], OWN, claims=claims))
    return tmp_path


def test_init_writes_the_study_of_the_paper(kgprobe, tmp_path):
    path = tmp_path / "new" / "study.toml"
    done = kgprobe("study", "init", "probe-paper", "-o", path)
    assert (done.code, done.out) == (0, "")
    assert f"next: kgprobe study run {path}" in done.err
    assert len(read_study(path).claims) > 20
    path.write_text("mine")
    refused = kgprobe("study", "init", "probe-paper", "-o", path)
    assert refused.code == 2
    assert "--force" in refused.err
    assert path.read_text() == "mine"
    assert kgprobe("study", "init", "probe-paper", "-o", path, "--force").code == 0
    unknown = kgprobe("study", "init", "prob-paper", "-o", tmp_path / "other.toml")
    assert unknown.code == 2
    assert "probe-paper" in unknown.err


def test_run_prints_the_verdicts_of_all_sources(kgprobe, place):
    done = kgprobe("study", "run", place / "study.toml", "-o", place / "out", "--ranks", place / "ranks")
    assert done.code == 0
    heading, _, first, second = done.out.splitlines()
    assert heading.split() == ["section", "claim", "statement", "ranks", "own"]
    assert re.split(r"\s{2,}", first.strip()) == [
        "5.1",
        "better",
        "Frequencies are better than chance",
        "cannot be checked",
        "undecided",
    ]
    assert "f" * 69 + "\N{HORIZONTAL ELLIPSIS}" in second
    assert "ranks has no ranks of small" in done.err
    assert "own: not yet trained or ranked: Relations on small, Relations on large" in done.err
    assert "own: 2 claims: 2 undecided" in done.err
    assert f"next: kgprobe study report {place}/out" in done.err


def test_models_are_trained_on_demand_where_ranks_are_given(kgprobe, place):
    words = ["study", "run", place / "study.toml", "-o", place / "out", "--ranks", place / "ranks", "--graph", "small"]
    listed = kgprobe(*words, "--dry-run")
    assert "Relations" not in listed.out
    assert "1 training left out" in listed.err
    assert "Relations" in kgprobe(*words, "--dry-run", "--train").out
    assert "1 training left out; they need --train" in kgprobe(*words).err
    assert not (place / "out" / "runs").exists()
    assert "Relations on small: trained" in kgprobe(*words, "--train").err
    assert "left out; they" not in kgprobe(*words).err


def test_run_in_every_format(kgprobe, place):
    words = ["study", "run", place / "study.toml", "-o", place / "out", "--ranks", f"mine={place}/ranks", "--no-train"]
    rows = json.loads(kgprobe(*words, "-f", "json").out)
    assert [(row["source"], row["claim"]) for row in rows] == [
        (source, claim) for source in ("mine", "own") for claim in ("better", "on large")
    ]
    assert {"verdict", "p", "p_runs", "needed", "reason", "observed", "statement"} <= set(rows[0])
    listed = list(csv.DictReader(io.StringIO(kgprobe(*words, "-f", "csv").out)))
    assert [row["verdict"] for row in listed] == [row["verdict"] for row in rows]
    assert kgprobe(*words, "-f", "markdown").out.startswith("| section | claim | statement | mine | own |")
    latex = kgprobe(*words, "-f", "latex").out
    assert "\\toprule" in latex
    assert "f" * 99 in latex


def test_a_dry_run_lists_the_work_and_writes_nothing(kgprobe, place):
    done = kgprobe("study", "run", place / "study.toml", "-o", place / "out", "--dry-run", "-f", "json")
    assert done.code == 0
    assert [(row["work"], row["graph"], row["model"], row["state"]) for row in json.loads(done.out)] == [
        (work, graph, model, "to do")
        for graph in ("small", "large")
        for work, model in (("rank", "Chance"), ("rank", "Entities"), ("train", "Relations"))
    ]
    assert "6 tasks of 6 to do, unknown time for 6" in done.err
    assert not (place / "out").exists()
    kgprobe("study", "run", place / "study.toml", "-o", place / "out", "--no-train", "--graph", "small")
    rows = json.loads(kgprobe("study", "run", place / "study.toml", "-o", place / "out", "--dry-run", "-f", "json").out)
    assert [row["seconds"] for row in rows] == [0, 0, None, None, None, None]
    some = kgprobe("study", "run", place / "study.toml", "-o", place / "out", "--dry-run", "--model", "Chance")
    assert some.out.count("Chance") == 2
    assert "Entities" not in some.out


def test_a_changed_study_over_an_old_folder(kgprobe, place):
    words = ["study", "run", place / "study.toml", "-o", place / "out", "--no-train"]
    assert kgprobe(*words).code == 0
    write_study(place, study_text(["small"], OWN))
    refused = kgprobe(*words)
    assert refused.code == 2
    assert "claims: on large is gone" in refused.err
    assert "continue with --update" in refused.err
    assert "or choose another --output" in refused.err
    assert kgprobe(*words, "--update").code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ranks", "nothing"], "invalid --ranks or --pairs"),
        (["--pairs", "nothing"], "invalid --ranks or --pairs"),
        (["--graph", "smal"], "invalid --graph or --model"),
        (["--model", "Best"], "unknown model 'Best'"),
        (["--jobs", "0"], "--jobs is 0"),
        (["--threads", "0"], "threads is 0"),
        (["--device", "abacus"], "abacus"),
    ],
)
def test_bad_options_are_named(kgprobe, place, options, message):
    done = kgprobe("study", "run", place / "study.toml", "-o", place / "out", *options)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_a_bad_study_is_refused_with_its_lines(kgprobe, place):
    study = write_study(place, study_text(["small"], OWN).replace('"better"\ngraph', '"bettr"\ngraph'))
    done = kgprobe("study", "run", study, "-o", place / "out")
    assert done.code == 1
    assert "unknown kind 'bettr'; nearest: better" in done.err
    assert not (place / "out").exists()


def test_a_second_process_is_refused(kgprobe, place):
    lock = study_work.StudyFolder(place / "out").lock()
    done = kgprobe("study", "run", place / "study.toml", "-o", place / "out")
    lock.release()
    assert done.code == 2
    assert "another process is running the study of this folder" in done.err


def test_ctrl_c_says_that_the_same_command_continues(kgprobe, place, monkeypatch):
    def press(*args: object, **options: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(study_work, "read_study_ranks", press)
    done = kgprobe("study", "run", place / "study.toml", "-o", place / "out", "--no-train")
    assert done.code == 130
    assert "the same command continues" in done.err
    monkeypatch.undo()


def test_report_reads_the_folder_again(kgprobe, place):
    kgprobe("study", "run", place / "study.toml", "-o", place / "out", "--ranks", place / "ranks", "--no-train")
    done = kgprobe("study", "report", place / "out", "--type", "svg")
    assert (done.code, done.out) == (0, f"{place}/out/report/index.html\n")
    report = place / "out" / "report"
    assert (report / "index.html").is_file()
    assert list((report / "figures").rglob("*.svg"))
    assert not list((report / "figures").rglob("*.pdf"))
    (place / "ranks" / "large" / "Chance.parquet").unlink()
    gone = kgprobe("study", "report", place / "out")
    assert gone.code == 1
    assert "Chance.parquet" in gone.err
    assert kgprobe("study", "report", place / "graphs").code == 1
