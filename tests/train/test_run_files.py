"""Every file of a run that is damaged, edited or of something else is named, with the field and a remedy."""

import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open
from safetensors.torch import save_file

import kgprobe as kp
from kgprobe.errors import DataError, UsageError
from kgprobe.json_files import write_json
from kgprobe.train.checkpoints import read_tensors, write_tensors
from kgprobe.train.run_files import read_run
from kgprobe.train.setting_sources import from_values
from kgprobe.train.settings import resolve, settings_text
from runs import TARGETS, small_graph

GRAPH = small_graph()

QUICK = {"dimension": 4, "epochs": 4, "validate_every": 2, "batch_size": 32, "select": list(TARGETS), "seeds": [3, 8]}

BEST = "best/mrr/seed-3.safetensors"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("finished") / "run"
    kp.fit("distmult", GRAPH, path, threads=1, **QUICK)
    return path


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A finished run of its own for each test."""
    return shutil.copytree(finished, tmp_path / "run")


def _resume(run: Path, **settings: Any) -> Any:
    return kp.fit("distmult", GRAPH, run, threads=1, resume=True, **settings)


def _refused(run: Path, act: Callable[[Path], Any] = _resume) -> str:
    """What an error says, which must have a remedy."""
    with pytest.raises(DataError) as error:
        act(run)
    assert error.value.remedy
    assert error.value.problems
    return str(error.value)


def _rank(run: Path) -> Any:
    return kp.rank(run, GRAPH)


def _edit_settings(run: Path, **changes: Any) -> None:
    values = read_run(run)[0].flat() | changes
    settings = resolve("distmult", [from_values("edited", values)]).settings
    (run / "settings.toml").write_text(settings_text(settings), encoding="utf-8")


def _edit_header(path: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    """Edit the metadata of a file of tensors as a careful person would, so that its hash fits again."""
    tensors, about = read_tensors(path)
    edit(about)
    write_tensors(path, tensors, about)


def _edit_json(path: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    """Edit a JSON file, so that its hash fits again."""
    content = json.loads(path.read_bytes())
    del content["sha256"]
    edit(content)
    write_json(path, content)


@pytest.mark.parametrize("act", [_resume, _rank], ids=["resume", "rank"])
def test_a_settings_file_that_was_edited_says_all_that_differs(act: Callable[[Path], Any], run: Path) -> None:
    _edit_settings(run, dimension=8, learning_rate=0.5, seeds=(8, 3))
    said = _refused(run, act)
    for text in (
        "dimension is 8, and was 4 when the run began",
        "learning_rate is 0.5, and was",
        "seeds is [8, 3], and was [3, 8] when the run began",
    ):
        assert f"{run / 'settings.toml'}: {text}" in said


def test_settings_of_an_unfinished_run_without_a_state_are_compared_too(run: Path) -> None:
    for name in ("result.json", "state.safetensors"):
        (run / name).unlink()
    shutil.rmtree(run / "best")
    _edit_settings(run, epochs=9)
    assert "epochs is 9, and was 4 when the run began" in _refused(run)


def test_a_state_with_other_settings_is_named(run: Path) -> None:
    _edit_header(run / "state.safetensors", lambda about: about["settings"].update(dimension=16, epochs=5))
    said = _refused(run)
    assert f"{run / 'state.safetensors'}: it was trained with other settings: dimension is 16, and 4 in the run" in said
    assert "epochs is 5, and 4 in the run" in said


def test_more_epochs_are_other_settings(run: Path) -> None:
    with pytest.raises(UsageError, match="other settings") as error:
        _resume(run, epochs=9, dimension=8)
    assert error.value.problems == ["epochs is 9, and was 4", "dimension is 8, and was 4"]
    assert "only device and threads may differ" in error.value.remedy


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda about: about.pop("progress"), "progress is missing"),
        (lambda about: about.update(progress=5), "progress is 5, and must be an object"),
        (lambda about: about["progress"].pop("epoch"), "progress.epoch is missing"),
        (lambda about: about["progress"].pop("selection"), "progress.selection is missing"),
        (lambda about: about["progress"]["selection"].pop("waited"), "progress.selection.waited is missing"),
        (lambda about: about["progress"].update(rows={}), "progress.rows is {}, and must be a list"),
        (lambda about: about["progress"].update(epoch=-1), "progress.epoch is -1, and must be a whole number"),
        (lambda about: about["progress"].update(epoch=True), "progress.epoch is True"),
        (lambda about: about["progress"].update(seconds="x"), "progress.seconds is 'x', and must be a number"),
        (lambda about: about.pop("logged"), "logged is missing"),
        (lambda about: about.update(settings=[]), "settings is [], and must be an object"),
        (lambda about: about.update(kind=["x"]), "does not say what it is"),
        (lambda about: about["progress"]["selection"].update(best={"MR": []}), "of 2 runs selected by MR"),
        (lambda about: about["progress"]["selection"].update(waited=[0, "x"]), "waited 1 is 'x'"),
        (lambda about: about["progress"]["selection"]["best"]["MRR"].pop(), "of 2 runs selected by MRR"),
        (
            lambda about: about["progress"]["selection"]["best"]["MRR"][0].update(score={}),
            "best MRR 0.score is {}, and must be a number",
        ),
        (lambda about: about["progress"]["selection"].update(waited=[0]), "of 1 runs selected by MRR, PROBE"),
    ],
)
def test_fields_of_a_state_that_are_missing_or_wrong(edit: Callable[[Any], Any], said: str, run: Path) -> None:
    (run / "result.json").unlink()
    _edit_header(run / "state.safetensors", edit)
    assert said in _refused(run)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda about: about.pop("graph"), "graph is missing"),
        (lambda about: about.update(graph="umls"), "graph is 'umls', and must be an object"),
        (lambda about: about["graph"].pop("content_hash"), "graph.content_hash is missing"),
        (lambda about: about["graph"].update(entities="12"), "graph.entities is '12', and must be a whole number"),
        (lambda about: about["graph"].update(relations=10**4000), "graph.relations is 1000"),
        (lambda about: about.pop("settings"), "settings is missing"),
        (lambda about: about.update(settings=None), "settings is None, and must be an object"),
        (lambda about: about["settings"].update(dimension=8), "dimension is 8"),
        (lambda about: about.pop("facts"), "facts is missing"),
        (lambda about: about["facts"].pop("epoch"), "facts.epoch is missing"),
        (lambda about: about.update(seed=8), "its seed is 8, and must be 3 in this place"),
        (lambda about: about.update(target="MR"), "its target is 'MR', and must be 'MRR' in this place"),
        (lambda about: about.pop("kind"), "does not say what it is"),
    ],
)
@pytest.mark.parametrize("finish", [True, False])
def test_fields_of_a_checkpoint_that_are_missing_or_wrong(
    finish: bool, edit: Callable[[Any], Any], said: str, run: Path
) -> None:
    if not finish:
        (run / "result.json").unlink()
    _edit_header(run / BEST, edit)
    resumed = _refused(run)
    assert str(run / BEST) in resumed
    assert said in resumed


def test_a_checkpoint_of_another_run_is_not_ranked_as_this_one(run: Path, tmp_path: Path) -> None:
    kp.fit("distmult", GRAPH, tmp_path / "other", threads=1, **QUICK | {"learning_rate": 0.3})
    first = "best/probe-alpha-1-beta-0/seed-3.safetensors"
    shutil.copy(tmp_path / "other" / first, run / first)
    for act in (_resume, _rank):
        assert "learning_rate is 0.3, and " in _refused(run, act)


def test_weights_that_do_not_fit_the_settings_of_their_checkpoint(run: Path) -> None:
    for name in ("settings.toml", "environment.json", "state.safetensors", "result.json"):
        (run / name).unlink()
    _edit_header(run / BEST, lambda about: about["settings"].update(dimension=8))
    said = _refused(run / BEST, _rank)
    assert str(run / BEST) in said
    assert "size mismatch for entity" in said


def test_a_file_with_the_checksum_of_earlier_versions_is_read(run: Path) -> None:
    tensors, about = read_tensors(run / BEST)
    ranks = _rank(run / BEST)
    named = b"".join(name.encode() + tensors[name].numpy().tobytes() for name in sorted(tensors))
    old = about | {"checksum": zlib.crc32(named)}
    save_file(tensors, run / BEST, {"kgprobe": json.dumps(old)})
    assert _rank(run / BEST).rank.tolist() == ranks.rank.tolist()
    save_file({name: own + 1 for name, own in tensors.items()}, run / BEST, {"kgprobe": json.dumps(old)})
    assert "its tensors have changed" in _refused(run / BEST, _rank)


def test_missing_fields_are_named_even_if_the_hash_was_forgotten(run: Path) -> None:
    with safe_open(run / BEST, framework="pt") as file:
        about = json.loads(file.metadata()["kgprobe"])
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    del about["graph"]
    save_file(tensors, run / BEST, {"kgprobe": json.dumps(about)})
    for place in (run, run / BEST):
        said = _refused(place, _rank if place != run else _resume)
        assert "graph is missing" in said
        assert "the checksum does not match" in said


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "one byte less": lambda content: content[:-2],
    "no UTF-8": lambda content: b"\xff\xfe" + content,
    "number": lambda content: b"5",
    "null": lambda content: b"null",
    "list": lambda content: b"[1, 2]",
    "text": lambda content: b'"x"',
    "deep": lambda content: b"[" * 99_999,
    "deep and closed": lambda content: b'{"graph": ' + b"[" * 99_999 + b"]" * 99_999 + b"}",
    "digits": lambda content: b'{"epochs": ' + b"9" * 5000 + b"}",
    "infinite": lambda content: b'{"epochs": 1e400, "targets": {}}',
    "no fields": lambda content: b"{}",
    "twice": lambda content: content + content,
}


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize(
    "name", ["settings.toml", "environment.json", "result.json", "log.jsonl", "state.safetensors", BEST]
)
def test_damaged_files_of_a_run_are_named(name: str, how: str, run: Path) -> None:
    content = (run / name).read_bytes()
    (run / name).write_bytes(DAMAGE[how](content))
    said = _refused(run)
    assert str(run / name) in said
    assert len(said) < 5000


@pytest.mark.parametrize("name", ["settings.toml", "environment.json", BEST, "log.jsonl"])
def test_files_that_are_missing_from_a_finished_run_are_named(name: str, run: Path) -> None:
    (run / name).unlink()
    with pytest.raises((DataError, UsageError)) as error:
        _resume(run)
    assert Path(name).name in str(error.value)


@pytest.mark.parametrize(
    "name", ["settings.toml", "environment.json", "result.json", "log.jsonl", "state.safetensors", BEST]
)
def test_a_folder_in_the_place_of_a_file(name: str, run: Path) -> None:
    (run / name).unlink()
    (run / name).mkdir()
    with pytest.raises((DataError, UsageError)) as error:
        _resume(run)
    assert Path(name).name in str(error.value)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda result: result.pop("epochs"), "epochs is missing"),
        (lambda result: result.update(seconds=None), "seconds is None, and must be a number"),
        (lambda result: result.pop("targets"), "targets is missing"),
        (lambda result: result["targets"].pop("MRR"), "targets.MRR is missing"),
        (lambda result: result["targets"]["MRR"].pop("test"), "targets.MRR.test is missing"),
        (lambda result: result["targets"]["MRR"]["test"].pop("head"), "targets.MRR.test.head is missing"),
        (lambda result: result["targets"]["MRR"]["test"]["both"]["MRR"].pop(), "has 1 values, and the run 2 seeds"),
    ],
)
def test_fields_of_a_result_that_are_missing_or_wrong(edit: Callable[[Any], Any], said: str, run: Path) -> None:
    _edit_json(run / "result.json", edit)
    found = _refused(run)
    assert str(run / "result.json") in found
    assert said in found


def test_a_damaged_result_is_computed_again_as_its_remedy_says(run: Path, finished: Path) -> None:
    (run / "result.json").write_bytes((run / "result.json").read_bytes()[:100])
    assert "result.json: not the JSON that kgprobe writes" in _refused(run)
    (run / "result.json").unlink()
    _resume(run)
    again, before = (json.loads((path / "result.json").read_bytes())["targets"] for path in (run, finished))
    assert again == before


def test_a_run_of_an_earlier_version_is_read_without_hashes(run: Path) -> None:
    for name, new in (("environment.json", "settings"), ("result.json", "log_hash")):
        content = json.loads((run / name).read_bytes())
        del content["sha256"], content[new]
        (run / name).write_text(json.dumps(content), encoding="utf-8")
    assert set(_resume(run).ranks) == set(TARGETS)
    _edit_settings(run, dimension=8)
    assert "it was trained with other settings: dimension is 4, and 8 in the run" in _refused(run)
