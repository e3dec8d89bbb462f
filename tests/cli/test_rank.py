import json
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kgprobe as kp
from kgprobe.predict.adapters.embedding_files import write_embeddings
from terminal import run_on_terminal


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """An embedding file for the tiny graph: entity i is the number i, likes asks for the next, knows for itself."""
    path = tmp_path / "mine.npz"
    arrays = {"entity": np.arange(4.0)[:, None], "relation": np.array([[1.0], [0.0]])}
    write_embeddings(path, {"model": "TransE", "p": 1}, arrays)
    return path


def test_a_model_file_becomes_a_rank_file(kgprobe, graph_dir: Path, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "ranks.parquet"
    done = kgprobe("rank", model, "--graph", graph_dir, "-o", out)
    assert (done.code, done.out) == (0, "")
    assert "4 queries" in done.err
    assert "filtered by train+test" in done.err
    assert kgprobe("check", out, "--graph", graph_dir).code == 0
    ranks = kp.read_ranks(out)
    assert ranks.info.model == "TransE"
    assert ranks.info.filtered == ("train", "test")
    # (e0, likes, ?) asks for 1: e1 is known, e0 and e2 are as far. (e1, knows, ?) asks for 1: e3 is farther than all.
    # (?, likes, e2) asks for 1: e1 is known, e0 and e2 are as far. (?, knows, e3) asks for 3: e0 is known, e1 is third.
    assert ranks.column("side").to_pylist() == ["tail", "tail", "head", "head"]
    assert ranks.rank.tolist() == [1.5, 4, 1.5, 3]
    assert ranks.ties.tolist() == [1, 0, 1, 0]
    assert ranks.candidates.tolist() == [3, 4, 3, 3]


@pytest.mark.parametrize(
    ("options", "candidates", "filtered"),
    [
        (["--filter", "none"], [4, 4, 4, 4], []),
        (["--filter", "test"], [4, 4, 4, 4], ["test"]),
        (["--filter", "train", "--side", "head"], [3, 3], ["train"]),
        (["--side", "tail"], [3, 4], ["train", "test"]),
        (["--split", "train"], [4, 4, 4, 4, 4, 4, 4, 4], ["train"]),
        (["--candidates", "train"], [1, 2, 1, 2], ["train", "test"]),
    ],
)
def test_the_setting_is_what_is_asked_for(
    kgprobe, graph_dir: Path, tmp_path: Path, options: list[str], candidates: list[int], filtered: list[str]
) -> None:
    out = tmp_path / "ranks.parquet"
    assert kgprobe("rank", "random", "-g", graph_dir, "-o", out, *options).code == 0
    ranks = kp.read_ranks(out)
    assert ranks.candidates.tolist() == candidates
    assert list(ranks.info.filtered or ()) == filtered
    assert kgprobe("check", out, "--graph", graph_dir).code == 0


def test_a_file_that_is_not_filtered_as_it_says(kgprobe, graph_dir: Path, tmp_path: Path) -> None:
    out = tmp_path / "ranks.parquet"
    kgprobe("rank", "random", "-g", graph_dir, "-o", out, "--filter", "none")
    kp.read_ranks(out).with_info(filtered=("train",)).write(out)
    assert kgprobe("check", out, "--graph", graph_dir).code == 1
    (finding,) = json.loads(kgprobe("check", out, "--graph", graph_dir, "-f", "json").out)
    assert finding["finding"].startswith("Unfiltered, but the metadata record filtered by train")


def test_lists_give_intervals_unless_the_rest_is_tied(kgprobe, graph_dir: Path, tmp_path: Path) -> None:
    lists = tmp_path / "rules.jsonl"
    asked = [("head", "e0", "likes"), ("head", "e1", "knows"), ("tail", "e2", "likes"), ("tail", "e3", "knows")]
    lines = [json.dumps({given: entity, "relation": r, "predictions": ["e0"]}) for given, entity, r in asked]
    lists.write_text("\n".join(lines), encoding="utf-8")
    values = {}
    for unlisted in ("unknown", "tied"):
        out = tmp_path / f"{unlisted}.parquet"
        done = kgprobe("rank", lists, "--graph", graph_dir, "-o", out, "--unlisted", unlisted)
        assert done.code == 0, done.err
        values[unlisted] = json.loads(kgprobe("eval", out, "-m", "MR", "-f", "json").out)[0]
    # e0 is the answer of (?, likes, e2) and known for (?, knows, e3); e1, e2 and e3 are beyond their lists.
    assert (values["unknown"]["value"], values["unknown"]["intervals"]) == (None, 3)
    assert (values["unknown"]["low"], values["unknown"]["high"]) == ((2 + 2 + 1 + 1) / 4, (3 + 4 + 1 + 3) / 4)
    assert values["tied"]["value"] == (2.5 + 3 + 1 + 2) / 4


def test_lists_of_a_language_model(kgprobe, graph_dir: Path, tmp_path: Path) -> None:
    lists, out = tmp_path / "llm.jsonl", tmp_path / "ranks.parquet"
    answers = {("e0", "likes"): ["1. E1", "Atlantis", "e2"], ("e1", "knows"): ["e0", "e00", "E0", "e3"]}
    records = [{"subject": head, "predicate": r, "answers": names} for (head, r), names in answers.items()]
    lists.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")

    def rank(*options: object):
        return kgprobe("rank", lists, "-g", graph_dir, "-o", out, "--side", "tail", "--filter", "none", *options)

    refuse(rank(), 1, "'Atlantis' is no known entity", "--unknown drop", "--unknown keep-as-wrong", "2 unknown")
    refuse(rank("--unknown", "drop"), 1, "'E0' is predicted twice", "--duplicates first", "1 repeated")
    expected = {
        ("drop",): [2.0, 2.0],
        ("keep-as-wrong",): [3.0, 3.0],
        ("keep-as-wrong", "--nearest", "0.8"): [3.0, 2.0],
    }
    for options, ranks in expected.items():
        done = rank("--duplicates", "first", "--unknown", *options)
        assert done.code == 0, done.err
        assert kp.read_ranks(out).rank.tolist() == ranks
        assert "7 answers: 3 matched by label, 1 matched after folding" in done.err
    assert "1 matched to the nearest name, 1 unknown (counted as wrong)" in done.err
    assert "not matched: 'Atlantis' (1 time)" in done.err
    info = kp.read_ranks(out).info.lists
    assert info is not None
    assert (info.unknown, info.duplicates, info.nearest, info.answers) == ("keep-as-wrong", "first", 0.8, 7)


def test_facts_that_are_repeated_are_ranked_once(kgprobe, graph_dir: Path, tmp_path: Path) -> None:
    with (graph_dir / "test.txt").open("a", encoding="utf-8") as file:
        file.write("e0\tlikes\te2\n")
    done = kgprobe("rank", "entity-frequency", "--graph", graph_dir, "-o", tmp_path / "ranks.parquet")
    assert done.code == 0
    assert "1 duplicate triple ranked only once" in done.err
    assert len(kp.read_ranks(tmp_path / "ranks.parquet")) == 4


def refuse(done, code: int, *said: str) -> None:
    assert done.code == code, done.err
    assert done.out == ""
    assert "Traceback" not in done.err
    for text in said:
        assert text in done.err


def test_requests_that_make_no_sense(kgprobe, graph_dir: Path, tmp_path: Path) -> None:
    def rank(*options: object):
        return kgprobe("rank", "random", "--graph", graph_dir, "-o", tmp_path / "ranks.parquet", *options)

    refuse(rank("--side", "left"), 2, "no side is called 'left'")
    refuse(rank("--split", "tets"), 2, "no split is called 'tets'; nearest: test")
    refuse(rank("--filter", "trian"), 2, "'trian' is neither a split nor a file; nearest: train")
    refuse(rank("--memory", "much"), 2, "'much' is not an amount of memory", "512MB")
    refuse(rank("--threads", "0", "--batch", "0"), 2, "threads is 0", "batch is 0")
    refuse(rank("--device", "abacus"), 2, "the device 'abacus' cannot be used")
    refuse(rank("--unlisted", "lost"), 2, "unknown, tied")
    refuse(rank("--unknown", "guess"), 2, "--unknown cannot be 'guess'", "error, drop, keep-as-wrong")
    refuse(rank("--duplicates", "last"), 2, "error, first")
    refuse(rank("--nearest", "2"), 2, "--nearest is 2.0")
    refuse(rank("--candidates", "trian"), 2, "trian")
    assert list(tmp_path.glob("*.parquet")) == []


def test_models_that_are_none(kgprobe, graph_dir: Path, model: Path, tmp_path: Path) -> None:
    def rank(what: object, *options: object):
        return kgprobe("rank", what, "--graph", graph_dir, "-o", tmp_path / "ranks.parquet", *options)

    refuse(rank("randon"), 1, "randon: no model", "no such file or folder; nearest: random", "top-k lists (.jsonl")
    (tmp_path / "notes.txt").write_text("nothing", encoding="utf-8")
    refuse(rank(tmp_path / "notes.txt"), 1, "notes.txt: no model", "an embedding file")
    model.write_bytes(model.read_bytes()[:200])
    refuse(rank(model), 1, "mine.npz")
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "trained_model.pkl").write_bytes(b"\x80\x04.")
    refuse(rank(tmp_path / "saved"), 1, "trained_model.pkl", "save_for_ranking")
    (tmp_path / "facts.tsv").write_text("e0\tlikes\te9\ne0\thates\te1\n", encoding="utf-8")
    refuse(rank("random", "--triples", tmp_path / "facts.tsv"), 1, "facts.tsv, line 1", "e9", "line 2", "hates")
    assert list(tmp_path.glob("*.parquet")) == []


def test_a_model_of_another_graph(kgprobe, graph_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "other.npz"
    arrays = {"entity": np.zeros((5, 2)), "relation": np.zeros((3, 2))}
    write_embeddings(path, {"model": "DistMult"}, arrays)
    done = kgprobe("rank", path, "--graph", graph_dir, "-o", tmp_path / "ranks.parquet")
    refuse(done, 1, "other.npz", "entity", "5", "4", "relation", "3", "2")


def test_where_nothing_can_be_written_nothing_is_ranked(kgprobe, graph_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    done = kgprobe("rank", "random", "--graph", graph_dir, "-o", tmp_path / "file" / "ranks.parquet")
    refuse(done, 1, "cannot be written", "folder that you may write to")


def contents(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}


def test_a_full_disk_leaves_the_old_file(graph_dir: Path, tmp_path: Path) -> None:
    out = tmp_path / "out" / "ranks.parquet"
    out.parent.mkdir()
    out.write_text("old", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "kgprobe", "rank", "random", "--graph", graph_dir, "-o", out],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
        check=False,
    )
    assert done.returncode == 1
    assert "ranks.parquet: cannot be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert [(file.name, file.read_text(encoding="utf-8")) for file in out.parent.iterdir()] == [
        ("ranks.parquet", "old")
    ]


SLOW = ["rank", "random", "--graph", "family-tree", "--batch", "1"]

"""A minute of work."""


def test_a_terminal_shows_how_far_it_is(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kgprobe", "rank", "random", "--graph", "family-tree", "--side", "tail"]
    shown = re.sub(r"\x1b\[[\d;?]*\w", "", run_on_terminal([*command, "-o", str(tmp_path / "ranks.parquet")]))
    assert re.search(r"ranking .* \d+/18924 queries [\d,]+ a second, \d:\d\d:\d\d", shown)


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_stop_on_the_way_leaves_no_half_file(tmp_path: Path, sign: signal.Signals, code: int) -> None:
    out = tmp_path / "ranks.parquet"
    out.write_text("old", encoding="utf-8")

    sent: list[signal.Signals] = []

    def stop(process: subprocess.Popen[bytes], shown: bytes) -> None:
        if b"a second" in shown and not sent:
            sent.append(sign)
            process.send_signal(sign)

    shown = run_on_terminal([sys.executable, "-m", "kgprobe", *SLOW, "-o", str(out)], code, stop)
    assert "Traceback" not in shown
    assert contents(tmp_path) == {"ranks.parquet": "old"}
