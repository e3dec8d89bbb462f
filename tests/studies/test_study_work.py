"""A study is run, continued, changed and read again: nothing is done twice, and what is missing stops nothing else."""

import json
import shutil
from pathlib import Path

import pytest

import kgprobe as kp
from kgprobe.errors import DataError, UsageError
from kgprobe.studies import study_work
from kgprobe.studies.study_folder import StudyFolder
from kgprobe.studies.study_work import open_study, plan_study, run_study
from kgprobe.studies.study_workers import StudyProgress
from kgprobe.studies.verdicts import Answer
from study_folders import BASELINES, BETTER, study_text, training, write_graph, write_ranks, write_study

OWN = {"Chance": 'model = "random"', "Entities": 'model = "entity-frequency"', "Relations": ""}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A study of two graphs and three models, and a folder of their ranks."""
    for seed, name in enumerate(("small", "large")):
        write_ranks(tmp_path / "ranks", write_graph(tmp_path, name, seed))
    write_study(tmp_path, study_text(["small", "large"]))
    return tmp_path


def times(folder: Path) -> dict[str, int]:
    """When each file was written."""
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_ranks_of_a_folder_are_judged_and_written(place):
    result = run_study(place / "study.toml", place / "out", ranks=[place / "ranks"])
    assert repr(result) == "StudyResult('study', 1 claims, ranks: ranks on 2 graphs)"
    (row,) = result.to_rows()
    assert (row["claim"], row["source"], row["section"]) == ("better", "ranks", "5.1")
    written = json.loads((place / "out" / "verdicts.json").read_text())["verdicts"]
    assert [one["verdict"] for one in written] == [row["verdict"]]
    assert result.to_pandas()["verdict"].tolist() == [row["verdict"]]
    assert (place / "out" / "study.toml").read_text() == (place / "study.toml").read_text()
    assert list(result.graphs) == ["small", "large"]
    assert "better" in result._repr_html_()


def test_nothing_is_done_or_written_a_second_time(place, monkeypatch):
    result = run_study(place / "study.toml", place / "out", ranks=[place / "ranks"])
    before = times(place / "out")

    def refuse(*args: object, **options: object) -> None:
        raise AssertionError("verdicts are computed again")

    monkeypatch.setattr(study_work, "judge", refuse)
    again = run_study(place / "study.toml", place / "out")  # the folder of ranks is remembered
    assert again.verdicts == result.verdicts
    assert {name for name, time in times(place / "out").items() if before[name] != time} <= {".lock", "study.toml"}
    opened = open_study(place / "out")
    assert opened.verdicts == result.verdicts
    assert opened.missing == result.missing
    assert {name: source.lineups.keys() for name, source in opened.sources.items()} == {"ranks": {"small", "large"}}


def test_other_ranks_lead_to_other_verdicts(place):
    run_study(place / "study.toml", place / "out", ranks=[place / "ranks"])
    shutil.copy(place / "ranks" / "small" / "Chance.parquet", place / "ranks" / "small" / "Entities.parquet")
    changed = open_study(place / "out").verdicts[0]
    assert changed.observed is False
    assert changed.numbers[0].endswith("0.0000")
    assert run_study(place / "study.toml", place / "out").verdicts == (changed,)


def test_sources_stand_side_by_side(place):
    write_ranks(place / "more", kp.load_graph(place / "graphs" / "small"))
    study = write_study(place, study_text(["small", "large"], OWN))
    result = run_study(study, place / "out", ranks=[place / "ranks", f"mine={place}/more"])
    assert [(verdict.source, verdict.claim.name) for verdict in result.verdicts] == [
        ("ranks", "better"),
        ("mine", "better"),
        ("own", "better"),
    ]
    (row,) = result.by_claim()
    assert list(row) == ["section", "claim", "statement", "ranks", "mine", "own"]
    assert result.sources["own"].lineups["large"].models == ("Chance", "Entities")
    assert result.missing["mine", "large", None] == "mine has no ranks of large"
    assert result.missing["own", "small", "Relations"] == "the study does not say where ranks of Relations come from"
    assert "mine has no ranks of large" in result.left_out()


def test_foreign_models_are_ranked_once(place):
    study = write_study(place, study_text(["small", "large"], OWN))
    assert [row["state"] for row in plan_study(study, place / "out").to_rows()] == ["to do"] * 4
    assert not (place / "out").exists()
    run_study(study, place / "out", graphs=["small"])
    plan = plan_study(study, place / "out")
    assert [(row["graph"], row["state"]) for row in plan.to_rows()] == [
        ("small", "finished"),
        ("small", "finished"),
        ("large", "to do"),
        ("large", "to do"),
    ]
    assert repr(plan) == "StudyWork(4 tasks: 2 finished, 2 to do)"
    assert plan.seconds == (0, 2)
    before = times(place / "out" / "ranks")
    result = run_study(study, place / "out")
    after = times(place / "out" / "ranks")
    assert {name: after[name] for name in before} == before
    assert len(after) == 2 * len(before)
    ranks = kp.read_ranks(place / "out" / "ranks" / "small" / "Chance.parquet")
    assert ranks.rank.tolist() == kp.rank("random", place / "graphs" / "small").rank.tolist()
    # The folder of ranks is one that can be given.
    other = run_study(place / "study.toml", place / "other", ranks=[f"shipped={place}/out/ranks"])
    assert other.sources["shipped"].lineups["small"].models == result.sources["own"].lineups["small"].models


def test_work_of_two_machines_is_put_together(place):
    study = write_study(
        place, study_text(["small", "large"], {name: f'model = "{one}"' for name, one in BASELINES.items()})
    )
    for graph in ("small", "large"):
        run_study(study, place / graph, graphs=[graph])
        assert [task.state for task in plan_study(study, place / graph).tasks].count("finished") == 3
    shutil.copytree(place / "large" / "ranks", place / "small" / "ranks", dirs_exist_ok=True)
    assert {task.state for task in plan_study(study, place / "small").tasks} == {"finished"}
    assert set(run_study(study, place / "small").sources["own"].lineups) == {"small", "large"}


def test_a_changed_graph_is_ranked_again(place):
    study = write_study(place, study_text(["small", "large"], OWN))
    run_study(study, place / "out")
    before = times(place / "out" / "ranks")
    write_graph(place, "small", seed=9)
    run_study(study, place / "out")
    changed = {name for name, time in times(place / "out" / "ranks").items() if before[name] != time}
    assert changed == {f"small/{model}.{end}" for model in ("Chance", "Entities") for end in ("json", "parquet")}


def test_a_changed_study_keeps_what_still_applies(place):
    study = write_study(place, study_text(["small", "large"], OWN))
    run_study(study, place / "out")
    before = times(place / "out" / "ranks")
    models = {**OWN, "Entities": 'model = "relation-frequency"'}
    write_study(place, study_text(["small", "large"], models, title="New"))
    with pytest.raises(UsageError, match="holds another study") as error:
        run_study(study, place / "out")
    assert error.value.problems == ["models: Entities differs", "title: is new"]
    assert times(place / "out" / "ranks") == before
    assert open_study(place / "out").study.title == "study"
    result = run_study(study, place / "out", update=True)
    assert result.study.title == open_study(place / "out").study.title == "New"
    changed = {name for name, time in times(place / "out" / "ranks").items() if before[name] != time}
    assert changed == {f"{graph}/Entities.{end}" for graph in ("small", "large") for end in ("json", "parquet")}


def test_ranks_of_other_settings_are_not_those_of_the_study(place):
    """Ranks whose training has changed are missing until it is trained again."""
    study = write_study(place, study_text(["small"], {"Chance": 'model = "random"', "Entities": training()}))
    kept = StudyFolder(place / "out").ranks_of("small", "Entities")
    run_study(study, place / "out", train=False)
    path = kept.path.with_suffix(".parquet")
    shutil.copy(place / "ranks" / "small" / "Entities.parquet", path)
    (task,) = [task for task in plan_study(study, place / "out").tasks if task.model == "Entities"]
    kept.finish(task.key, [path])
    assert "Entities" in run_study(study, place / "out", train=False).sources["own"].lineups["small"].models
    write_study(place, study_text(["small"], {"Chance": 'model = "random"', "Entities": training(dimension=8)}))
    result = run_study(study, place / "out", train=False, update=True)
    assert result.sources["own"].lineups["small"].models == ("Chance",)
    assert result.missing["own", "small", "Entities"] == "Entities on small is not yet trained"
    assert result.left_out()[-1] == "own: not yet trained or ranked: Entities on small"
    assert result.verdicts[0].answer is Answer.unchecked


def test_what_cannot_be_had_is_named_and_the_rest_is_done(place):
    models = {**OWN, "Relations": 'model = "broken.npz"', "Gone": 'model = "gone.npz"'}
    (place / "broken.npz").write_bytes(b"no model")
    notes: list[str] = []
    study = write_study(place, study_text(["small", "nowhere"], models))
    result = run_study(study, place / "out", note=notes.append)
    assert result.sources["own"].lineups["small"].models == ("Chance", "Entities")
    assert "broken.npz" in result.missing["own", "small", "Relations"]
    assert result.missing["own", "small", "Gone"] == f"{place}/gone.npz: no such model"
    assert "no such graph" in result.missing["", "nowhere", None]
    assert [line for line in result.left_out() if "nowhere" in line] == [
        f"graph nowhere: {result.missing['', 'nowhere', None]}"
    ]
    assert any("Relations on small: " in note for note in notes)
    assert open_study(place / "out").missing == result.missing


def test_a_reason_that_all_models_share_is_named_once(place):
    kp.KnowledgeGraph.from_triples(train=[[0, 0, 1]], name="untested").write(place / "graphs" / "untested")
    models = {"A": training(), "B": training("rotate")}
    result = kp.study(write_study(place, study_text(["untested"], models, claims="")), place / "out")
    assert result.left_out() == ["own: untested has no test triples"]


def test_ranks_stay_in_use_where_the_graph_is_not_at_hand(place):
    study = write_study(place, study_text(["small", "large"], OWN))
    run_study(study, place / "out")
    shutil.rmtree(place / "graphs" / "small")
    result = run_study(study, place / "out")
    assert result.sources["own"].lineups["small"].models == ("Chance", "Entities")
    assert list(result.graphs) == ["large"]


def test_unknown_arguments_are_refused_before_anything_is_written(place):
    with pytest.raises(UsageError, match="invalid `graphs` or `models`") as error:
        run_study(place / "study.toml", place / "out", graphs=["smal"], models=["Chance", "RotatE"])
    assert [problem.split(";")[0] for problem in error.value.problems] == [
        "unknown graph 'smal'",
        "unknown model 'RotatE'",
    ]
    with pytest.raises(UsageError, match="`jobs` is 0"):
        run_study(place / "study.toml", place / "out", jobs=0)
    with pytest.raises(UsageError, match="invalid resources"):
        run_study(place / "study.toml", place / "out", threads=0)
    with pytest.raises(DataError, match="no rank files of this study"):
        run_study(place / "study.toml", place / "out", ranks=[place / "ranks" / "small"])
    with pytest.raises(DataError, match="not a valid study"):
        run_study(write_study(place, "graphs = []"), place / "out")
    assert not (place / "out").exists()


def test_a_second_run_at_the_same_time_is_refused(place):
    run_study(place / "study.toml", place / "out", ranks=[place / "ranks"])
    lock = StudyFolder(place / "out").lock()
    with pytest.raises(UsageError, match="another process is running the study"):
        run_study(place / "study.toml", place / "out")
    assert open_study(place / "out").verdicts  # reading is always possible
    lock.release()


def test_rank_files_that_have_vanished_are_an_error_when_the_study_is_read_again(place):
    run_study(place / "study.toml", place / "out", ranks=[place / "ranks"])
    (place / "ranks" / "small" / "Chance.parquet").unlink()
    with pytest.raises(DataError, match="no longer there") as error:
        open_study(place / "out")
    assert error.value.problems == [str(place / "ranks" / "small" / "Chance.parquet")]
    result = run_study(place / "study.toml", place / "out")
    assert result.missing["ranks", "small", "Chance"] == "ranks has no ranks of Chance on small"
    assert open_study(place / "out").verdicts == result.verdicts


def test_progress_grows_to_the_end(place):
    seen: list[StudyProgress] = []
    study = write_study(place, study_text(["small", "large"], OWN))
    run_study(study, place / "out", ranks=[place / "ranks"], progress=seen.append)
    done = [one.done for one in seen]
    assert done == sorted(done)
    assert done[-1] == pytest.approx(seen[-1].total)
    assert {name for one in seen for name in one.running} >= {"Chance on small", "claims on ranks", "claims on own"}


def test_a_study_without_claims_and_a_graph_with_odd_names(tmp_path):
    graph = write_graph(tmp_path, "weird näme (1)")
    write_ranks(tmp_path / "ränks", graph)
    study = write_study(tmp_path, study_text(["weird näme (1)"], claims=""))
    result = run_study(study, tmp_path / "öut", ranks=[tmp_path / "ränks"])
    assert result.verdicts == ()
    assert result.sources["ränks"].lineups["weird näme (1)"].models == tuple(BASELINES)
    assert result.by_claim() == result.to_rows() == []


def test_published_ranks_of_a_new_folder_just_work(data, tmp_path):
    """A folder of rank files of the published form, without metadata, and with a graph that the study does not have."""
    claims = BETTER.replace("GRAPH", "umls").replace("Entities", "RotatE").replace("Chance", "pLogicNet")
    text = study_text(["umls", "family"], {"RotatE": "", "pLogicNet": ""}, claims=claims)
    study = write_study(tmp_path, text.replace("graphs/", ""))
    result = run_study(study, tmp_path / "out", ranks=[data / "published_ranks"])
    (verdict,) = result.verdicts
    assert verdict.answer is Answer.untrusted
    assert verdict.flags[0].model == "pLogicNet"
    assert open_study(tmp_path / "out").verdicts == result.verdicts
    assert result.missing["published_ranks", "family", None] == "published_ranks has no ranks of family"
