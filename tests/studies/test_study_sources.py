"""Rank files are found by name, and what is missing, damaged or not comparable is named, without loss of the rest."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import kgprobe as kp
from kgprobe.errors import DataError
from kgprobe.openworld.world_ranks import rank_worlds
from kgprobe.openworld.world_tasks import all_task
from kgprobe.studies.study_file import Study, read_study
from kgprobe.studies.study_folder import GivenFolders, StudyFolder
from kgprobe.studies.study_sources import (
    OPEN_WORLD,
    find_rank_files,
    load_graphs,
    own_rank_files,
    read_source,
    read_study_ranks,
    read_worlds,
)
from kgprobe.studies.verdicts import Answer, SourceRanks, judge
from study_folders import BASELINES, few_ranks, study_text, write_graph, write_ranks, write_study
from worlds import Dense, random_world


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """Two graphs with ranks of three models, and a third graph without any."""
    for seed, name in enumerate(("small", "large", "third")):
        graph = write_graph(tmp_path, name, seed)
        if name != "third":
            write_ranks(tmp_path / "ranks", graph)
    return read_study(write_study(tmp_path, study_text(["small", "large", "third"])))


def source_of(study: Study, name: str = "ranks") -> SourceRanks:
    return read_source(find_rank_files(name, [study.folder / name], study), load_graphs(study)[0])


def test_graphs_without_ranks_and_models_without_files_are_named(study):
    (study.folder / "ranks" / "large" / "Chance.parquet").unlink()
    source = source_of(study)
    assert source.missing == {
        ("large", "Chance"): "ranks has no ranks of Chance on large",
        ("third", None): "ranks has no ranks of third",
    }
    assert {graph: lineup.models for graph, lineup in source.lineups.items()} == {
        "small": tuple(BASELINES),
        "large": ("Entities", "Relations"),
    }


def test_names_are_matched_without_case_and_punctuation(tmp_path):
    graph = write_graph(tmp_path, "FB-1")
    write_ranks(tmp_path / "ranks", graph, {"c++": "random", "C#": "entity-frequency", "模型": "random"}, "fb_1")
    models = dict.fromkeys(["C++", "C#", "模型", "模"], "")
    study = read_study(write_study(tmp_path, study_text(["FB-1"], models, claims="")))
    found = find_rank_files("ranks", [tmp_path / "ranks"], study)
    files = {model: path.name for model, path in found.files["FB-1"].items()}
    assert files == {"C++": "c++.parquet", "C#": "C#.parquet", "模型": "模型.parquet"}
    assert found.missing == {("FB-1", "模"): "ranks has no ranks of 模 on FB-1"}
    assert found.notes == []


def test_names_that_may_be_two_things_are_not_guessed(study):
    ranks = study.folder / "ranks"
    for copy in ("chance", "CHANCE"):
        shutil.copy(ranks / "small" / "Chance.parquet", ranks / "small" / f"{copy}.parquet")
    shutil.copytree(ranks / "large", ranks / "Large")
    (ranks / "large").rename(ranks / "LARGE")
    assert "Chance" in find_rank_files("ranks", [ranks], study).files["small"]  # the exact name is preferred
    (ranks / "small" / "Chance.parquet").unlink()
    found = find_rank_files("ranks", [ranks], study)
    assert (
        found.missing["small", "Chance"] == "several files of ranks/small may be Chance: CHANCE.parquet, chance.parquet"
    )
    assert found.missing["large", None] == "several folders of ranks may be large: LARGE, Large"
    assert "large" not in found.files


def test_several_folders_are_one_source(study):
    ranks, more = study.folder / "ranks", study.folder / "more"
    (more / "small").mkdir(parents=True)
    (ranks / "large").rename(more / "large")
    (ranks / "small" / "Chance.parquet").rename(more / "small" / "Chance.parquet")
    found = find_rank_files("ranks", [ranks, more], study)
    assert found.files["small"] == {
        model: (more if model == "Chance" else ranks) / "small" / f"{model}.parquet" for model in BASELINES
    }
    assert found.files["large"] == {model: more / "large" / f"{model}.parquet" for model in BASELINES}
    assert found.missing == {("third", None): "ranks has no ranks of third"}
    shutil.copy(more / "small" / "Chance.parquet", ranks / "small" / "Chance.parquet")
    twice = find_rank_files("ranks", [ranks, more], study)
    paths = ", ".join(str(folder / "small" / "Chance.parquet") for folder in (ranks, more))
    assert twice.missing["small", "Chance"] == f"several files of ranks/small may be Chance: {paths}"


def test_what_the_study_does_not_name_is_noted(study):
    ranks = study.folder / "ranks"
    shutil.copytree(ranks / "large", ranks / "foreign")
    shutil.copy(ranks / "large" / "Chance.parquet", ranks / "large" / "Other.parquet")
    (ranks / "small" / "RotatE_small_1.json").write_text("{}")
    (ranks / "table.csv").write_text("a,b\n")
    assert find_rank_files("ranks", [ranks], study).notes == [
        "ranks/large/Other.parquet is no model of the study and is left out",
        "ranks/foreign is no graph of the study and is left out",
        "ranks holds files that are not read: small/RotatE_small_1.json, table.csv; ranks of other programs become "
        "rank files with 'kgprobe import'",
    ]


def test_a_folder_without_any_rank_file_of_the_study_is_an_error(study):
    with pytest.raises(DataError, match="no rank files of this study") as error:
        find_rank_files("small", [study.folder / "ranks" / "small"], study)
    assert "GRAPH/MODEL.parquet" in error.value.remedy


def test_damaged_and_empty_files_are_named_and_the_others_used(study):
    small = study.folder / "ranks" / "small"
    content = (small / "Chance.parquet").read_bytes()
    (small / "Chance.parquet").write_bytes(content[: len(content) // 2])
    few_ranks(kp.load_graph(study.graphs["large"]), []).write(small / "Entities.parquet")
    source = source_of(study)
    assert source.lineups["small"].models == ("Relations",)
    assert "Chance.parquet" in source.missing["small", "Chance"]
    assert source.missing["small", "Entities"].endswith("Entities.parquet: it has no rows")
    verdict = judge(study.claims, source)[0]
    assert verdict.answer is Answer.unchecked
    assert "only one model on small" in (verdict.reason or "")


def test_a_graph_whose_files_are_all_damaged_is_missing(study):
    for model in BASELINES:
        (study.folder / "ranks" / "small" / f"{model}.parquet").write_bytes(b"PAR1")
    source = source_of(study)
    assert list(source.lineups) == ["large"]
    assert "Entities.parquet" in source.missing["small", None]


def test_ranks_that_are_intervals_are_refused(study):
    path = study.folder / "ranks" / "small" / "Chance.parquet"
    table = kp.read_ranks(path)
    columns = {name: table[name] for name in ("head", "relation", "tail", "side", "rank", "candidates")}
    kp.Ranks.from_columns(**columns, worst_rank=table.candidates).write(path)
    source = source_of(study)
    assert "its ranks are intervals" in source.missing["small", "Chance"]
    assert source.lineups["small"].models == ("Entities", "Relations")


def test_a_model_on_other_queries_is_left_out_if_the_others_agree(study):
    path = study.folder / "ranks" / "small" / "Chance.parquet"
    table = kp.read_ranks(path)
    table.filter(table.predicts_tail).write(path)
    source = source_of(study)
    assert source.lineups["small"].models == ("Entities", "Relations")
    assert "does not rank the queries of the other models" in source.missing["small", "Chance"]
    (path.parent / "Relations.parquet").unlink()  # one against one: nobody knows which is right
    source = source_of(study)
    assert "small" not in source.lineups
    assert "the models do not rank the same queries" in source.missing["small", None]


def test_ranks_of_another_graph_are_refused(study):
    shutil.copy(
        study.folder / "ranks" / "small" / "Chance.parquet", study.folder / "ranks" / "large" / "Chance.parquet"
    )
    assert source_of(study).missing["large", "Chance"]


def test_a_graph_that_is_not_found_does_not_stop_the_use_of_its_ranks(study):
    shutil.rmtree(study.folder / "graphs" / "small")
    study = read_study(study.path)
    graphs, unfound = load_graphs(study)
    assert (list(graphs), list(unfound)) == (["large", "third"], ["small"])
    assert "no such graph" in unfound["small"]
    source = source_of(study)
    assert source.lineups["small"].models == tuple(BASELINES)
    assert not np.isnan(source.lineups["small"].first.numbers("entity_popularity")).any()


def test_tables_of_one_row_are_lined_up(study):
    graph = kp.load_graph(study.graphs["small"])
    for model in BASELINES:
        few_ranks(graph, [0]).write(study.folder / "ranks" / "small" / f"{model}.parquet")
    source = source_of(study)
    assert len(source.lineups["small"]) == 1
    assert judge(study.claims, source)[0].answer is Answer.undecided


def test_own_ranks_come_from_files_of_the_study_or_its_folder(tmp_path, study):
    models = {"Chance": 'ranks = "ranks/{graph}/Chance.parquet"', "Entities": 'model = "entity-frequency"', "Other": ""}
    text = study_text(["small", "third"], models, claims="")
    study = read_study(write_study(tmp_path, text))
    folder = StudyFolder(tmp_path / "out")
    kept = folder.ranks_of("third", "Entities")
    kept.path.parent.mkdir(parents=True)
    kept.fail("key", "out of memory: too large")
    found = own_rank_files(study, folder)
    assert found.files == {"small": {"Chance": tmp_path / "ranks" / "small" / "Chance.parquet"}}
    unknown = "the study does not say where ranks of Other come from"
    gone = f"{tmp_path}/ranks/third/Chance.parquet: no such rank file"
    assert found.missing == {
        ("small", "Entities"): "Entities on small is not yet ranked",
        ("small", "Other"): unknown,
        ("third", "Chance"): gone,
        ("third", "Entities"): "out of memory: too large",
        ("third", "Other"): unknown,
        ("third", None): f"{gone}; out of memory: too large; {unknown}",
    }


def test_open_worlds_are_told_apart_by_their_missing_rate(tmp_path, study):
    for density in (0.6, 0.75):
        world = random_world(density=density)
        for number in range(3):
            pair = rank_worlds(Dense.random(world, number).score, world, all_task(world), name=f"m{number}")
            for epoch in (1, 2):
                pair.write(tmp_path / "pairs" / f"{density}" / f"m{number}", f"epoch-{epoch}")
    other = random_world(seed=5, density=0.6)
    rank_worlds(Dense.random(other).score, other, all_task(other)).write(tmp_path / "twin" / "m", "final")
    given = GivenFolders({}, (tmp_path / "pairs", tmp_path / "twin"))
    folder = StudyFolder(tmp_path / "out")
    worlds, missing = read_worlds(study, folder, given)
    assert {rate: len(points) for rate, points in worlds.items()} == {0.4: 6, 0.25: 6}
    assert missing == {(OPEN_WORLD, None): "random-0.6: another world has missing rate 0.4"}
    ranks = read_study_ranks(study, folder, given)
    assert ranks.sources["own"].worlds.keys() == worlds.keys()
    (tmp_path / "pairs" / "0.6" / "m0" / "epoch-1.open.parquet").unlink()
    worlds, missing = read_worlds(study, folder, given)
    assert not worlds
    assert "its .open.parquet is missing" in missing[OPEN_WORLD, None]


def test_the_inputs_of_verdicts_follow_the_ranks_that_are_used(study):
    given, folder = GivenFolders({"ranks": (study.folder / "ranks",)}), StudyFolder(study.folder / "out")
    first = read_study_ranks(study, folder, given)
    assert list(first.sources) == ["ranks"]  # nothing of the study's own
    assert [Path(path).name for path in first.files].count("Chance.parquet") == 2
    path = study.folder / "ranks" / "small" / "Chance.parquet"
    graph = kp.load_graph(study.graphs["small"])
    kp.rank("random", graph, name="renamed").write(path)
    assert read_study_ranks(study, folder, given).inputs != first.inputs
    path.unlink()
    assert ("ranks", "small", "Chance") in read_study_ranks(study, folder, given).missing


def test_published_ranks(data, tmp_path):
    text = study_text(["umls"], {"RotatE": "", "pLogicNet": "", "New": ""}, claims="").replace("graphs/umls", "umls")
    study = read_study(write_study(tmp_path, text))
    source = read_source(find_rank_files("published", [data / "published_ranks"], study), load_graphs(study)[0])
    assert source.lineups["umls"].models == ("RotatE", "pLogicNet")
    assert len(source.lineups["umls"].runs["RotatE"]) == 3
    assert source.lineups["umls"].flagged == ("pLogicNet",)
