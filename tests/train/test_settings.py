import math
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from kgprobe.errors import UsageError
from kgprobe.models.random_streams import RandomStreams
from kgprobe.models.registry import MODELS, model_kind
from kgprobe.train.setting_sources import from_command_line, from_file, from_values, read_toml
from kgprobe.train.settings import PLAIN, Settings, read_settings, resolve, settings_page, settings_text


def file(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_the_last_source_that_names_a_setting_decides(tmp_path: Path) -> None:
    sources = [
        from_values("sizes", {"epochs": 1, "batch_size": 1, "dimension": 1, "patience": 1}),
        from_file(read_toml(file(tmp_path / "a.toml", "epochs = 2\nbatch_size = 2\ndimension = 2\n")), "a.toml"),
        from_file(read_toml(file(tmp_path / "b.toml", "epochs = 3\nbatch_size = 3\n")), "b.toml"),
        from_command_line({"epochs": ["4"]}),
    ]
    found = resolve("COMPLEX", sources)
    settings = found.settings
    assert (settings.epochs, settings.batch_size, settings.options.dimension, settings.patience) == (4, 3, 2, 1)
    assert [found.origins[key] for key in ("epochs", "batch_size", "dimension", "patience", "loss")] == [
        "command line",
        "b.toml",
        "a.toml",
        "sizes",
        PLAIN,
    ]
    assert settings.model == "ComplEx"
    assert found.given == {"model": "ComplEx", "epochs": 4, "batch_size": 3, "dimension": 2, "patience": 1}


@pytest.mark.parametrize("model", MODELS)
def test_no_model_has_a_setting_of_the_trainer(model: str) -> None:
    options = MODELS[model].load().Options
    assert {field.name for field in fields(options)} & {field.name for field in fields(Settings)} == set()


@pytest.mark.parametrize("model", MODELS)
def test_settings_are_read_back_bit_for_bit(model: str, tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        "learning_rate": 0.1 + 0.2,
        "regularisation": 5e-324,
        "select": ("PROBE(alpha=-0.5,beta_e=0.1,beta_r=0.7)", "MR"),
        "seeds": (7, 0),
        "subsampling": True,
    }
    settings = resolve(model, []).settings
    settings = replace(settings, **{key: value for key, value in changes.items() if key in settings.flat()})
    path = file(tmp_path / "settings.toml", settings_text(settings))
    assert read_settings(path) == settings


@pytest.mark.parametrize("model", [model for model, kind in MODELS.items() if kind.without])
def test_settings_that_mean_nothing_to_a_model_are_neither_shown_nor_taken(model: str) -> None:
    kind, resolved = MODELS[model], resolve(model, [])
    assert kind.without < {field.name for field in fields(Settings)}
    assert kind.without & set(resolved.settings.flat()) == set()
    assert kind.without & set(resolved.origins) == set()
    with pytest.raises(UsageError) as caught:
        resolve(model, [from_command_line({key: ["1"] for key in sorted(kind.without)})])
    assert caught.value.problems == [
        f"command line: there is no setting '{key}' of {kind.name}" for key in sorted(kind.without)
    ]


def test_all_that_is_wrong_is_said_at_once_with_its_place(tmp_path: Path) -> None:
    path = file(
        tmp_path / "mine.toml",
        'model = "RotatE"\nepoch = 5\nlearning_rate = "fast"\nbatch_size = 0\n'
        'loss = "cross entropy"\nselect = ["MMR", 3]\n\n[option]\nx = 1\n',
    )
    line = from_command_line({"dimension": ["-1"], "seeds": ["1,1,-2"], "select": ["hits", "MR"], "dropout": ["2"]})
    with pytest.raises(UsageError) as caught:
        resolve("complex", [from_file(read_toml(path)), line])
    assert caught.value.problems == [
        f"{path}, line 1: these are settings of RotatE, not of ComplEx",
        f"{path}, line 2: there is no setting 'epoch'; nearest: epochs, reciprocal",
        f"{path}, line 3: learning_rate is 'fast', and must be a number",
        f"{path}, line 4: batch_size is 0, and must be at least 1",
        f"{path}, line 5: loss is 'cross entropy', and must be one of self_adversarial, cross_entropy, "
        "binary_cross_entropy, soft_probe",
        f"{path}, line 6: select must be a list of one or more metrics, and has 3",
        f"{path}, line 8: there is no setting 'option'; nearest: patience, precision, optimiser",
        "command line: dimension is -1, and must be at least 1",
        "command line: seeds must be a list of one or more whole numbers from 0 to 9007199254740991, and has -2",
        "command line: seeds has 1 more than once",
        "command line: select: 'hits': Hits needs a cut-off. write for example Hits@10",
        "command line: dropout is 2.0, and must be at most 0.95",
    ]
    assert "--dry-run" in caught.value.remedy


@pytest.mark.parametrize(
    "seed", [2**53, 2**63, 2**64, 10**400, 10**5000, -1, 1.0, True, "x", [1], None], ids=lambda seed: str(type(seed))
)
def test_seeds_that_a_rank_file_cannot_hold_are_refused(seed: Any) -> None:
    for seeds in ([seed], [0, 1, seed]):
        with pytest.raises(UsageError) as caught:
            resolve("transe", [from_values("given", {"seeds": seeds})])
        assert len(caught.value.problems) == 1
        assert "seeds must be a list of one or more whole numbers from 0 to 9007199254740991" in str(caught.value)
        assert len(caught.value.problems[0]) < 250


def test_the_largest_seed_is_taken() -> None:
    assert resolve("transe", [from_command_line({"seeds": [str(2**53 - 1)]})]).settings.seeds == (2**53 - 1,)


def test_seeds_with_the_same_random_numbers_are_refused() -> None:
    alone, both = RandomStreams([5], "cpu"), RandomStreams([5, 5 + 2**32], "cpu")
    assert (both.integers(1000, (9,)) == alone.integers(1000, (9,))).all()
    with pytest.raises(UsageError) as caught:
        resolve("transe", [from_values("given", {"seeds": [5, 6, 5 + 2**32]})])
    assert "seeds has 5 and 4294967301, which draw the same random numbers" in caught.value.problems[0]


NUMBERS = {
    (model, field.name): field
    for model, kind in MODELS.items()
    for field in (*fields(Settings), *fields(kind.load().Options))
    if isinstance(field.default, int | float) and not isinstance(field.default, bool) and field.name not in kind.without
}


@pytest.mark.parametrize(
    "value",
    [10**40, -(10**40), 10**400, -(10**400), 10**5000, 1e300, -1e300, 1e400, math.nan, "9" * 5000],
    ids=["above", "below", "10^400", "-10^400", "10^5000", "1e300", "-1e300", "inf", "nan", "text"],
)
def test_every_number_has_a_range_and_all_that_are_out_of_it_are_named(value: Any) -> None:
    for model in MODELS:
        names = sorted(name for own, name in NUMBERS if own == model)
        with pytest.raises(UsageError) as caught:
            resolve(model, [from_values("given", dict.fromkeys(names, value))])
        assert sorted(problem.split()[1] for problem in caught.value.problems) == names
        assert max(map(len, caught.value.problems)) < 250


@pytest.mark.parametrize(
    "value",
    [{"a": 1}, [[1]], {"deep": [10**5000]}, [None], None, {}, b"x"],
    ids=["table", "nested", "digits", "null", "none", "empty", "bytes"],
)
def test_no_setting_takes_a_value_of_another_type(value: Any) -> None:
    for model in MODELS:
        names = sorted(set(resolve(model, []).settings.flat()) - {"model"})
        with pytest.raises(UsageError) as caught:
            resolve(model, [from_values("given", dict.fromkeys(names, value))])
        assert {
            re.sub("^a value of ", "", problem.removeprefix("given: ")).split()[0] for problem in caught.value.problems
        } == set(names)


@pytest.mark.parametrize("empty", ["seeds = []", "select = []"])
def test_empty_lists(tmp_path: Path, empty: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve("transe", [from_file(read_toml(file(tmp_path / "a.toml", empty)))])
    assert "one or more" in caught.value.problems[0]


def test_metrics_get_their_canonical_names_once() -> None:
    found = resolve("transe", [from_command_line({"select": ["mr, hits@3", "probe( beta=.4, Alpha=0.50 )", "MR"]})])
    assert found.settings.select == ("MR", "Hits@3", "PROBE(alpha=0.5,beta=0.4)")


@pytest.mark.parametrize(
    ("model", "given", "said"),
    [
        ("house", {"dimension": ["30"], "block": ["4"]}, "multiple of block"),
        ("complex", {"objective": ["k_vs_all"], "loss": ["self_adversarial"]}, "where objective is k_vs_all"),
    ],
)
def test_settings_that_do_not_fit_together(model: str, given: dict[str, list[str]], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(model, [from_command_line(given)])
    assert said in caught.value.problems[0]


def test_a_file_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not name its model"):
        read_settings(file(tmp_path / "settings.toml", "epochs = 3\n"))


PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def test_the_page_in_the_documentation_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == settings_page(), "run 'make docs'"


def test_the_page_has_every_setting_of_every_model_once_in_its_own_table() -> None:
    common, *own = settings_page().split("\n## ")[1:]
    shared, named = _settings(common), {part.splitlines()[0]: _settings(part) for part in own}
    assert set(named) == {"TransE", "DistMult", "ComplEx", "RotatE", "HousE", "TuckER", "pLogicNet", "RNNLogic"}
    for model, settings in named.items():
        everywhere = [name for name in shared if name not in model_kind(model).without]
        assert sorted(everywhere + settings) == sorted(set(resolve(model, []).settings.flat()) - {"model"})


def test_the_page_names_the_settings_that_a_model_does_not_have() -> None:
    sections = {part.splitlines()[0]: part for part in settings_page().split("\n## ")[1:]}
    for kind in MODELS.values():
        told = sections[kind.name].partition("It does not have ")[2]
        assert set(re.findall(r"`(\w+)`", told)) == kind.without


def _settings(part: str) -> list[str]:
    return [line.split("`")[1] for line in part.splitlines() if line.startswith("| `")]


def test_an_unknown_model_in_a_file_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text('model = "DistMuf"\n', encoding="utf-8")
    with pytest.raises(UsageError, match=r"settings\.toml: there is no model 'DistMuf'; nearest: DistMult"):
        read_settings(tmp_path / "settings.toml")
