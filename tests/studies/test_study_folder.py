"""The folder of a study: nothing else is overwritten, finished work is told by its key, verdicts are kept exactly."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.comparison.lineup import Flag
from kgprobe.errors import DataError, UsageError
from kgprobe.studies.study_file import Study, read_study
from kgprobe.studies.study_folder import GivenFolders, Kept, StudyFolder, file_name, verdict_key
from kgprobe.studies.verdicts import Answer, Verdict
from study_folders import BETTER, study_text, write_graph, write_study

NOTHING = GivenFolders({})


@pytest.fixture
def study(tmp_path: Path) -> Study:
    write_graph(tmp_path, "small")
    return read_study(write_study(tmp_path, study_text(["small"])))


@pytest.fixture
def folder(tmp_path: Path, study: Study) -> StudyFolder:
    folder = StudyFolder(tmp_path / "out")
    lock = folder.lock()
    folder.begin(study, NOTHING)
    lock.release()
    return folder


def test_folders_are_named_after_themselves_or_as_given(tmp_path):
    for name in ("published_ranks", "a=b"):
        (tmp_path / name).mkdir()
    found = GivenFolders.of([str(tmp_path / "published_ranks"), f"mine={tmp_path}/published_ranks"], [])
    assert list(found.ranks) == ["published_ranks", "mine"]
    assert GivenFolders.of([str(tmp_path / "a=b")], []).ranks == {"a=b": (tmp_path / "a=b",)}
    assert GivenFolders.of([tmp_path / "a=b"], []).ranks == {"a=b": (tmp_path / "a=b",)}


def test_folders_of_the_same_given_name_are_one_source(tmp_path):
    one, two = tmp_path / "one" / "ranks", tmp_path / "two" / "ranks"
    for folder in (one, two):
        folder.mkdir(parents=True)
    assert GivenFolders.of([f"all={one}", f"all={two}", f"all={one}"], []).ranks == {"all": (one, two)}
    assert GivenFolders.of([str(one), f"ranks={two}"], []).ranks == {"ranks": (one, two)}


def test_all_problems_of_given_folders_are_listed(tmp_path):
    (tmp_path / "one" / "ranks").mkdir(parents=True)
    (tmp_path / "two" / "ranks").mkdir(parents=True)
    given = [f"{tmp_path}/one/ranks", f"{tmp_path}/two/ranks", f"own={tmp_path}/one", f"{tmp_path}/none"]
    with pytest.raises(UsageError, match="invalid `ranks` or `pairs`") as error:
        GivenFolders.of(given, [tmp_path / "nothing"])
    assert [problem.split(": ", 1)[1].split(";")[0] for problem in error.value.problems] == [
        "another folder is named 'ranks'",
        "the name 'own' is kept for the models of the study",
        "no such folder",
        "no such folder",
    ]


@given(st.lists(st.text(min_size=1, max_size=90), min_size=2, max_size=2, unique=True))
def test_names_of_files_are_safe_and_different(names):
    made = [file_name(name) for name in names]
    assert made[0] != made[1]
    for name in made:
        assert Path(name).name == name
        assert not name.startswith(".")
        assert len(name) < 100


def test_finished_work_is_told_by_its_key_and_its_files(tmp_path):
    path, kept = tmp_path / "ranks.parquet", Kept(tmp_path / "ranks.json")
    path.write_text("ranks")
    assert (kept.files, kept.reason, kept.is_finished("")) == ([], None, False)
    kept.finish("key", [path])
    assert kept.is_finished("key")
    assert not kept.is_finished("another key")
    path.write_text("other ranks")
    assert not kept.is_finished("key")
    kept.fail("key", "out of memory: it is too large")
    assert (kept.files, kept.reason, kept.is_finished("key")) == ([], "out of memory: it is too large", False)
    kept.path.write_text("{")
    assert (kept.files, kept.reason) == ([], None)


def test_files_of_other_work_are_discarded(tmp_path):
    path, kept = tmp_path / "ranks.parquet", Kept(tmp_path / "ranks.json")
    path.write_text("ranks")
    kept.finish("key", [path])
    kept.discard_others("key")
    assert path.exists()
    kept.discard_others("another key")
    assert not path.exists()
    assert not kept.path.exists()


def test_a_folder_with_other_files_is_left_alone(tmp_path, study):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").write_text("dear")
    with pytest.raises(UsageError, match="holds other files") as error:
        StudyFolder(tmp_path / "home").prepared(study, NOTHING, update=True)
    assert error.value.problems == ["letter.txt"]
    with pytest.raises(UsageError, match="it is a file"):
        StudyFolder(tmp_path / "home" / "letter.txt").prepared(study, NOTHING, update=False)


def test_another_study_is_refused_with_all_that_differs(tmp_path, study, folder):
    models = {"Chance": "", "Relations": "", "New": 'ranks = "x.parquet"'}
    claims = BETTER.replace("better than chance", "nice").replace('"Entities"', '"New"') + BETTER.replace(
        '"better"', '"more"', 1
    ).replace('"Entities"', '"New"')
    text = study_text(["small", "other"], models, claims=claims, seeds=[1], title="New")
    other = read_study(write_study(tmp_path, text, "other.toml"))
    with pytest.raises(UsageError, match="holds another study") as error:
        folder.prepared(other, NOTHING, update=False)
    assert error.value.problems == [
        "graphs: was ['graphs/small'] and is ['graphs/small', 'graphs/other']",
        "models: Entities is gone, New is new",
        "claims: better differs, more is new",
        "seeds: is new",
        "title: is new",
    ]
    assert "`update=True`" in error.value.remedy
    assert (folder.path / "study.toml").read_text() == study.text
    assert folder.prepared(other, NOTHING, update=True)[0] is other


def test_a_comment_is_no_other_study(tmp_path, study, folder):
    commented = read_study(write_study(tmp_path, f"# new\n{study.text}", "commented.toml"))
    assert folder.prepared(commented, NOTHING, update=False)[0] is commented


def test_a_study_that_was_changed_in_python_is_refused(tmp_path, study):
    folder = StudyFolder(tmp_path / "new")
    lock = folder.lock()
    with pytest.raises(UsageError, match="was changed after it was read") as error:
        folder.begin(replace(study, seeds=(7,), level=0.9), NOTHING)
    lock.release()
    assert error.value.problems == ["other than in the file: seeds, level"]
    assert not (folder.path / "study.toml").exists()


def test_the_copy_has_the_paths_of_the_original(tmp_path, study, folder):
    read, given = folder.read()
    assert read == replace(study, path=read.path)
    assert read.graphs == {"small": str(tmp_path / "graphs" / "small")}
    assert read.title == "study"
    assert given == NOTHING
    of_copy = read_study(folder.path / "study.toml")
    assert folder.prepared(of_copy, NOTHING, update=False)[0].graphs == read.graphs


def test_folders_are_remembered_until_an_update(tmp_path, study, folder):
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    folder.record_files(study, GivenFolders({"a": (tmp_path / "a",)}, (tmp_path / "c",)), [])
    more = GivenFolders({"b": (tmp_path / "b",)})
    assert list(folder.prepared(study, more, update=False)[1].ranks) == ["a", "b"]
    assert folder.prepared(study, more, update=True)[1] == more
    (tmp_path / "a").rename(tmp_path / "moved")
    with pytest.raises(DataError, match="no longer there") as error:
        folder.prepared(study, more, update=False)
    assert error.value.problems == [f"{tmp_path / 'a'} (the ranks 'a')"]
    moved = GivenFolders({"a": (tmp_path / "moved",)})
    assert folder.prepared(study, moved, update=False)[1].ranks == {"a": (tmp_path / "moved",)}


def test_files_that_have_vanished_are_named(tmp_path, study, folder):
    folder.record_files(study, NOTHING, [str(tmp_path / "gone.parquet")])
    with pytest.raises(DataError, match="no longer there") as error:
        folder.read()
    assert error.value.problems == [str(tmp_path / "gone.parquet")]
    with pytest.raises(DataError, match="not a folder of a study"):
        StudyFolder(tmp_path / "graphs").read()


def test_a_second_run_is_refused(folder):
    lock = folder.lock()
    with pytest.raises(UsageError, match="another process is running the study of this folder") as error:
        folder.lock()
    assert error.value.problems == [f"its process id is {os.getpid()}"]
    lock.release()
    folder.lock().release()


def test_verdicts_are_kept_exactly(study, folder):
    claim, flag = study.claims[0], Flag("Chance", ("one; two", "three"), error=True)
    verdicts = [
        Verdict(claim, "a", Answer.unchecked, reason="none"),
        Verdict(claim, "b", Answer.untrusted, True, ("1; 2", "3"), "why", 1 / 3, 1e-300, "more", (flag,), Answer.runs),
    ]
    folder.store_verdicts(verdicts, {"a": "key a", "b": "key b"})
    assert folder.stored_verdicts(study, "a", "key a") == verdicts[:1]
    assert folder.stored_verdicts(study, "b", "key b") == verdicts[1:]
    assert folder.stored_verdicts(study, "b", "key a") is None
    (folder.path / "verdicts.json").write_text("{}")
    assert folder.stored_verdicts(study, "b", "key b") is None


def test_verdicts_depend_on_claims_level_and_ranks(study):
    keys = {
        verdict_key(study, {"files": {}}),
        verdict_key(study, {"files": {"small/Chance": "00"}}),
        verdict_key(replace(study, level=0.9), {"files": {}}),
        verdict_key(replace(study, claims=()), {"files": {}}),
    }
    assert len(keys) == 4
    assert verdict_key(replace(study, title="other"), {"files": {}}) in keys
