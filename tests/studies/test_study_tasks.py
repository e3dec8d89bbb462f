"""The work of a study: what it is keyed by, how long it takes, what cannot be done, and the options of trainings."""

import shutil
from pathlib import Path
from typing import Any

import pytest

import kgprobe as kp
from kgprobe.cli.train import _option_texts
from kgprobe.errors import UsageError
from kgprobe.openworld.splits import split_world
from kgprobe.openworld.world_files import read_world, write_world
from kgprobe.resources import Resources
from kgprobe.studies.study_file import read_study
from kgprobe.studies.study_folder import StudyFolder
from kgprobe.studies.study_sources import OPEN_WORLD, load_graphs
from kgprobe.studies.study_tasks import StudyPlan, Training, WorldTraining, plan_tasks, write_split_world
from kgprobe.train.setting_sources import from_command_line, known_settings
from kgprobe.train.settings import resolve
from study_folders import BETTER, study_text, training, write_graph, write_study


def planned(place: Path, text: str) -> StudyPlan:
    study = read_study(write_study(place, text))
    return plan_tasks(study, StudyFolder(place / "out"), *load_graphs(study))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_graph(tmp_path, "small")
    return tmp_path


def key_of(place: Path, text: str) -> str:
    return planned(place, text).tasks[0].key


def test_the_key_of_a_training_is_that_of_its_graph_settings_and_seeds(place):
    def key(**changes: Any) -> str:
        return key_of(place, study_text(["small"], {"Mine": training(**changes)}, claims="", seeds=[1, 2]))

    first = key()
    assert key() == first
    assert key_of(place, study_text(["small"], {"Renamed": training()}, claims="", seeds=[1, 2], title="x")) == first
    assert key(dimension=8) != first
    assert key(seeds=[1]) != first
    assert key_of(place, study_text(["small"], {"Mine": training()}, claims="", seeds=[1])) == key(seeds=[1])
    write_graph(place, "small", seed=9)
    assert key() != first


def test_the_key_of_a_ranking_is_that_of_its_graph_and_model(place):
    text = study_text(["small"], {"Mine": 'model = "{graph}.npz"'}, claims="")
    (place / "small.npz").write_bytes(b"one")
    first = key_of(place, text)
    (place / "small.npz").write_bytes(b"two")
    assert key_of(place, text) != first
    (place / "small.npz").write_bytes(b"one")
    assert key_of(place, text) == first
    write_graph(place, "small", seed=9)
    assert key_of(place, text) != first


def test_what_cannot_be_done_is_named(place):
    kp.KnowledgeGraph.from_triples(train=[[0, 0, 1]], name="untested").write(place / "graphs" / "untested")
    text = study_text(["small", "untested", "gone"], {"A": training(), "B": 'model = "no.npz"', "C": ""}, claims="")
    plan = planned(place, text)
    assert [(task.work, task.graph, task.model) for task in plan.tasks] == [("train", "small", "A")]
    assert {cell: reason.split(" (")[0] for cell, reason in plan.impossible.items()} == {
        ("small", "B"): f"{place}/no.npz: no such model",
        ("untested", "A"): "untested has no test triples",
        ("untested", "B"): f"{place}/no.npz: no such model",
        ("gone", "A"): "graphs/gone: no such graph",
        ("gone", "B"): "graphs/gone: no such graph",
    }


def test_all_invalid_settings_are_listed_at_once(place):
    models = {"A": training(dimension=-1, nonsense=3), "B": training(epochs="many")}
    world = f'[openworld]\nworld = "graphs/small"\n[openworld.models.W]\n{training(batch_size=0)}'
    with pytest.raises(UsageError, match="invalid trainings") as error:
        planned(place, study_text(["small"], models, claims=world))
    assert [problem.split(": the study: ")[0] for problem in error.value.problems] == [
        "[models.A]",
        "[models.A]",
        "[models.B]",
        "[openworld.models.W]",
    ]


def test_the_command_of_a_training_leads_to_the_planned_settings(place):
    settings = {"select": ["MRR", "PROBE(alpha=-1,beta=0.4)"], "reciprocal": True, "learning_rate": 1e-05, "seeds": [7]}
    (task,) = planned(place, study_text(["small"], {"Mine": training(**settings)}, claims="")).tasks
    assert isinstance(task, Training)
    job = task.job("cpu", 1)
    texts = _option_texts([word.removeprefix("--set=") for word in job.arguments if word.startswith("--set=")], {})
    graph = kp.load_graph(task.source)
    given = from_command_line(texts)
    assert resolve("complex", [*known_settings("ComplEx", graph).sources, given]).settings == task.settings
    assert task.settings.learning_rate == 1e-05
    assert job.arguments[:2] == ("train", "complex")
    assert {"--device=cpu", "--threads=1"} < set(job.arguments)
    task.run.mkdir(parents=True)
    (task.run / "settings.toml").write_text("")
    assert task.state == "begun"
    assert "--resume" in task.job("cpu", 1).arguments
    assert not any(word.startswith("--set") for word in task.job("cpu", 1).arguments)


def test_settings_for_a_graph_reach_its_training_alone(place):
    write_graph(place, "large", seed=1)
    text = study_text(["small", "large"], {"Mine": f"{training()}\nsettings_on.large = {{dimension = 8, epochs = 3}}"})
    small, large = planned(place, text.replace(BETTER.replace("GRAPH", "small"), "")).tasks
    assert isinstance(small, Training)
    assert isinstance(large, Training)
    assert [(task.settings.flat()["dimension"], task.settings.epochs) for task in (small, large)] == [(4, 2), (8, 3)]
    assert {"--set=dimension=8", "--set=epochs=3"} < set(large.job("cpu", 1).arguments)
    assert {"--set=dimension=4", "--set=epochs=2"} < set(small.job("cpu", 1).arguments)


def test_the_time_of_packaged_settings_is_known(data, tmp_path):
    models = {"Packaged": 'train = "complex"', "Other": training()}
    text = study_text(["umls"], models, claims="", seeds=[1, 2]).replace("graphs/umls", "umls")
    rows = [task.to_row() for task in planned(tmp_path, text).tasks]
    assert rows[0]["seconds"] == pytest.approx(123 * 2 / 3)
    assert "cores" in rows[0]["measured"]
    assert (rows[1]["seconds"], rows[1]["state"]) == (None, "to do")


def test_odd_names_have_files_of_their_own(place):
    names = ["a/b", "a_b", "..", "C++", "模型", "x" * 300]
    tasks = planned(place, study_text(["small"], dict.fromkeys(names, 'model = "random"'), claims="")).tasks
    for task in tasks:
        task.do(Resources())  # type: ignore[attr-defined]
    assert all(task.is_finished for task in tasks)
    assert len({task.kept.path for task in tasks}) == len(names)
    assert all(task.kept.path.parent == place / "out" / "ranks" / "small" for task in tasks)
    assert kp.read_ranks(tasks[0].kept.files[0]).info.model == "a/b"


def test_a_world_is_split_once_and_written_again_if_it_is_another(place):
    world = f'[openworld]\nworld = "graphs/small"\ndensity = 0.6\n[openworld.models.W]\n{training(epochs=30)}'
    plan = planned(place, study_text(["small"], claims=world))
    (task,) = plan.tasks
    assert isinstance(task, WorldTraining)
    assert (task.graph, task.settings.snapshot_every) == ("small", 3)
    assert task.world.settings["density"] == 0.6
    folder = StudyFolder(place / "out")
    write_split_world(task, folder)
    written = Path(task.source) / "openworld.json"
    assert read_world(task.source).graph.content_hash == task.world.graph.content_hash
    before = written.stat().st_mtime_ns
    write_split_world(task, folder)
    assert written.stat().st_mtime_ns == before
    (other,) = planned(place, study_text(["small"], claims=world.replace("0.6", "0.7"))).tasks
    assert isinstance(other, WorldTraining)
    assert other.key != task.key
    write_split_world(other, folder)
    assert read_world(other.source).settings["density"] == 0.7


def test_a_world_that_is_given_is_never_written(place):
    write_world(split_world(kp.load_graph(place / "graphs" / "small"), 0.5), place / "world")
    text = study_text(["small"], claims=f'[openworld]\nworld = "world"\n[openworld.models.W]\n{training()}')
    (task,) = planned(place, text).tasks
    assert isinstance(task, WorldTraining)
    assert (task.source, task.world.settings["density"]) == (str(place / "world"), 0.5)
    shutil.rmtree(place / "world")
    write_split_world(task, StudyFolder(place / "out"))
    assert not (place / "world").exists()


def test_a_world_that_is_not_found_is_named(place):
    text = study_text(["small"], claims=f'[openworld]\nworld = "gone"\n[openworld.models.W]\n{training()}')
    assert "gone: no such graph" in planned(place, text).impossible[OPEN_WORLD, "W"]
