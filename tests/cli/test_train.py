import json
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

import kgprobe as kp
from kgprobe.train.settings import read_settings
from runs import small_graph
from terminal import run_on_terminal

QUICK = ["--threads", "1", "--device", "cpu", "--epochs", "4", "--validate-every", "2", "--dimension", "4"]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph of twelve entities, with validation and test facts."""
    folder = tmp_path_factory.mktemp("graphs") / "small"
    small_graph().write(folder)
    return folder


def test_a_run_selects_by_several_metrics_and_shows_both_sides(kgprobe, small: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    targets = ["--select", "mrr", "--select", "MR", "--seeds", "3,5"]
    done = kgprobe("train", "complex", "-g", small, "-o", run, *QUICK, *targets, "-f", "json")
    assert done.code == 0, done.err
    rows = json.loads(done.out)
    assert [(row["target"], row["seed"]) for row in rows] == [
        (target, seed) for target in ("MRR", "MR") for seed in ("3", "5", "mean")
    ]
    for target, file in (("MRR", "ranks.parquet"), ("MR", "ranks-mr.parquet")):
        ranks = kp.read_ranks(run / file)
        own = [row for row in rows if row["target"] == target]
        assert own[2]["test"] == pytest.approx(kp.evaluate(ranks, target)[target])
        for side in ("head", "tail"):
            (score,) = [score for score in kp.scores(ranks, target, by=["side"]) if score.group["side"] == side]
            assert own[2][side] == pytest.approx(score.value)
        curve = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
        best = min if target == "MR" else max
        for place, row in enumerate(own[:2]):
            assert row["validation"] == best(line["scores"][target][place] for line in curve)
        assert own[2]["validation"] == pytest.approx((own[0]["validation"] + own[1]["validation"]) / 2)
    assert read_settings(run / "settings.toml").select == ("MRR", "MR")
    assert "settings: defaults for" in done.err
    assert len(re.findall(r"^epoch \d/4, loss \d.*; MRR 0\.\d+, best 0\.\d+; MR ", done.err, re.MULTILINE)) == 2
    assert "% of the test queries tie" in done.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--seeds", str(2**63)], "seeds must be a list of one or more whole numbers from 0 to 9007199254740991"),
        (["--seeds", "1,-1"], "and has -1"),
        (["--seeds", "9" * 5000], "seeds must be a list"),
        (["--set", f"epochs={'9' * 5000}"], "epochs is '999"),
        (["--set", f"gamma=1{'0' * 400}"], "gamma is inf, and must be a number"),
        (["--set", f"epochs=1{'0' * 400}"], "and must be at most 9007199254740992"),
        (["--learning-rate", "nan"], "learning_rate is nan, and must be a number"),
        (["--dimension", "0", "--batch-size", "1e400"], "batch_size is '1e400', and must be a whole number"),
    ],
    ids=["2^63", "negative", "digits of a seed", "digits", "infinite", "10^400", "nan", "two"],
)
def test_numbers_out_of_range_are_refused_before_anything_is_written(
    options: list[str], said: str, kgprobe, small: Path, tmp_path: Path
) -> None:
    done = kgprobe("train", "rotate", "-g", small, "-o", tmp_path / "run", *options)
    assert done.code == 2
    assert said in " ".join(done.err.split())
    assert not (tmp_path / "run").exists()
    assert len(done.err) < 2000


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--threads", "99999999999999999999"], "threads is 99999999999999999999, and must be at most 4,096"),
        (["--threads", "0"], "threads is 0, and must be at least 1"),
        (["--device", "meta"], "the device 'meta' cannot be used"),
        (["--device", "x"], "the device 'x' cannot be used"),
    ],
)
def test_threads_and_devices_that_no_machine_has(
    options: list[str], said: str, kgprobe, small: Path, tmp_path: Path
) -> None:
    done = kgprobe("train", "rotate", "-g", small, "-o", tmp_path / "run", *options)
    assert done.code == 2
    assert said in " ".join(done.err.split())
    assert not (tmp_path / "run").exists()


def test_a_damaged_run_is_not_resumed(kgprobe, small: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert kgprobe("train", "complex", "-g", small, "-o", run, *QUICK).code == 0
    (run / "result.json").write_bytes((run / "result.json").read_bytes()[:50])
    text = (run / "settings.toml").read_text(encoding="utf-8")
    (run / "settings.toml").write_text(text.replace("dimension = 4", "dimension = 8"), encoding="utf-8")
    done = kgprobe("train", "complex", "-g", small, "-o", run, "--resume")
    assert done.code == 1
    said = " ".join(done.err.split())
    assert "settings.toml: dimension is 8, and was 4 when the run began" in said
    assert "result.json: not the JSON that kgprobe writes" in said


def test_a_run_with_one_seed_has_no_mean(kgprobe, small: Path, tmp_path: Path) -> None:
    done = kgprobe("train", "distmult", "-g", small, "-o", tmp_path / "run", *QUICK, "-f", "json")
    (row,) = json.loads(done.out)
    assert (row["target"], row["seed"]) == ("PROBE(alpha=1,beta=0)", "0")


def test_a_dry_run_prints_settings_that_can_be_used_again(kgprobe, small: Path, tmp_path: Path) -> None:
    asked = ["train", "rotate", "-g", small, "--set", "gamma=4.5", "--seeds", "1,2", "--dry-run"]
    done = kgprobe(*asked)
    assert done.code == 0
    values = tomllib.loads(done.out)
    assert (values["gamma"], values["seeds"], values["model"]) == (4.5, [1, 2], "RotatE")
    assert re.search(r"^gamma = 4\.5  # command line$", done.out, re.MULTILINE)
    assert re.search(r"^loss = .*  # defaults for [\d,]+ entities and [\d,]+ triples$", done.out, re.MULTILINE)
    mine = tmp_path / "mine.toml"
    mine.write_text(f"{done.out}\n[measured]\ntest = 0.25\n", encoding="utf-8")
    again = kgprobe("train", "rotate", "-g", small, "--config", mine, "--dry-run")
    assert tomllib.loads(again.out) == values | {"measured": {"test": 0.25}}
    assert f"settings: {mine}, then defaults" in again.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rotat", "-o", "run"], "there is no model 'rotat'; nearest: RotatE"),
        (["rotate"], "--output is missing"),
        (["rotate", "-o", "run", "--resume", "--force"], "--force replaces it"),
        (["rotate", "-o", "run", "--resume"], "there is no run to resume"),
        (["rotate", "-o", "run", "--set", "gamma"], "--set gamma"),
        (["rotate", "-o", "run", "--set", "gama=3"], "there is no setting 'gama'; nearest: gamma"),
        (["rotate", "-o", "run", "--epochs", "ten"], "command line: epochs is 'ten', and must be a whole number"),
        (["rotate", "-o", "run", "--epochs", "3", "--set", "epochs=4"], "epochs is '3 and 4'"),
        (["rotate", "-o", "run", "--select", "MMR"], "unknown metric 'MMR'. did you mean MR, MRR"),
        (["rotate", "-o", "run", "--device", "abacus"], "the device 'abacus' cannot be used"),
        (["rotate", "-o", "run", "--threads", "0"], "threads is 0"),
    ],
)
def test_a_request_that_makes_no_sense(kgprobe, small: Path, tmp_path: Path, arguments, said, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = kgprobe("train", *arguments, "-g", small)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "run").exists()


def test_all_problems_at_once(kgprobe, small: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text("epochs = 0\nbatches = 3\n", encoding="utf-8")
    done = kgprobe("train", "complex", "-g", small, "--dry-run", "--config", mine, "--set", "loss=x", "--seeds", "a")
    assert done.code == 2
    for said in ("line 1: epochs is 0", "line 2: there is no setting 'batches'", "loss is 'x'", "has 'a'"):
        assert said in done.err


def test_a_graph_without_validation_facts_keeps_the_last_epoch(kgprobe, graph_dir: Path, tmp_path: Path) -> None:
    done = kgprobe("train", "distmult", "-g", graph_dir, "-o", tmp_path / "run", *QUICK, "-f", "json")
    assert done.code == 0, done.err
    assert "no validation triples: no checkpoint can be selected, the last epoch is kept" in done.err
    (row,) = json.loads(done.out)
    assert (row["epoch"], row["validation"]) == (4, None)
    assert 0 <= row["test"] <= 1


def test_a_graph_without_test_facts_has_no_ranks(kgprobe, graph_dir: Path, tmp_path: Path) -> None:
    (graph_dir / "test.txt").unlink()
    done = kgprobe("train", "distmult", "-g", graph_dir, "-o", tmp_path / "run", *QUICK, "-f", "json")
    assert done.code == 0, done.err
    assert "no test triples" in done.err
    (row,) = json.loads(done.out)
    assert (row["epoch"], row["test"], row["head"]) == (4, None, None)
    assert not (tmp_path / "run" / "ranks.parquet").exists()


def test_a_graph_without_training_facts(kgprobe, tmp_path: Path) -> None:
    kp.KnowledgeGraph.from_triples(test=[[0, 0, 1]]).write(tmp_path / "tiny")
    done = kgprobe("train", "distmult", "-g", tmp_path / "tiny", "-o", tmp_path / "run")
    assert done.code == 1
    assert "tiny: no training triples" in done.err
    assert not (tmp_path / "run").exists()


def test_a_finished_run_is_shown_again_and_not_trained_over(kgprobe, small: Path, tmp_path: Path) -> None:
    command = ["train", "transe", "-g", small, "-o", tmp_path / "run", *QUICK]
    first = kgprobe(*command)
    assert first.code == 0, first.err
    assert kgprobe(*command).code == 2
    again = kgprobe(*command, "--resume")
    assert (again.code, again.out) == (0, first.out)
    assert "is finished already" in again.err
    other = kgprobe(*command, "--resume", "--set", "gamma=3")
    assert other.code == 2
    assert "gamma is 3.0, and was 9.0" in other.err
    forced = kgprobe(*command, "--force")
    assert (forced.code, forced.out) == (0, first.out)


LONG = ["--threads", "1", "--device", "cpu", "--epochs", "80", "--validate-every", "1", "--patience", "0"]


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on_and_going_on_ends_the_same(kgprobe, small: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = ["train", "distmult", "-g", str(small), "-o", str(run), *LONG, "--dimension", "4"]
    process = subprocess.Popen(
        [sys.executable, "-m", "kgprobe", *command], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    until = time.monotonic() + 60
    while not (run / "state.safetensors").exists() and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    said = re.search(r"run: stopped; epoch (\d+) of 80 is saved; .* --resume continues with epoch", err)
    assert said, err
    assert "Traceback" not in err
    refused = kgprobe(*command)
    assert refused.code == 2
    assert "--resume continues it" in refused.err
    resumed = kgprobe(*command, "--resume")
    assert resumed.code == 0, resumed.err
    first = re.search(r"^epoch (\d+)/80", resumed.err, re.MULTILINE)
    assert first, resumed.err
    assert int(first[1]) > int(said[1])
    assert len(re.findall("^epoch ", resumed.err, re.MULTILINE)) <= 21
    command[5] = str(tmp_path / "undisturbed")
    assert kgprobe(*command).out == resumed.out


BRIEF = ["--threads", "1", "--device", "cpu", "--epochs", "30", "--validate-every", "2", "--patience", "0"]


def test_a_terminal_shows_a_bar_with_what_matters(small: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kgprobe", "train", "distmult", "-g", str(small), "-o", str(tmp_path / "run")]
    shown = run_on_terminal([*command, *BRIEF])
    plain = re.sub(r"\x1b\[[\d;?]*\w", "", shown)
    assert re.search(r"DistMult .* epoch \d+/30, loss \d+\.\d+, [\d,]+ steps a second.* left", plain)
    assert re.search(r"PROBE\(alpha=1,beta=0\) 0\.\d+, best 0\.\d+", plain)


def test_without_torch_one_line_says_what_to_install(small: Path, tmp_path: Path) -> None:
    hide = (
        "import sys, importlib.util as u; real = u.find_spec; sys.modules['torch'] = None\n"
        "u.find_spec = lambda name, *more: None if name == 'torch' else real(name, *more)\n"
        f"sys.argv = ['kgprobe', 'train', 'rotate', '-g', {str(small)!r}, '-o', {str(tmp_path / 'run')!r}]\n"
        "from kgprobe.cli.main import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", hide], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "Error: RotatE needs torch\nRemedy: pip install 'kgprobe[models]'\n"


def test_help_does_not_wait_for_torch() -> None:
    code = (
        "import sys; sys.argv = ['kgprobe', 'train', '--help']\n"
        "from kgprobe.cli.main import app\n"
        "try: app()\n"
        "finally: print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip().endswith("False")
    assert "--dry-run" in done.stdout
