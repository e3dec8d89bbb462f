from pathlib import Path

import pytest

from kgprobe.train.sources import as_kind, from_command_line, from_file, from_text
from kgprobe.train.toml import read_toml


@pytest.mark.parametrize(
    ("default", "text", "value"),
    [
        (1, "7", 7),
        (1, "-7", -7),
        (1, "7.5", "7.5"),
        (1, "", ""),
        (0.5, "1e-3", 1e-3),
        (0.5, "3", 3.0),
        (0.5, "fast", "fast"),
        (False, "True", True),
        (False, "false", False),
        (False, "1", "1"),
        ("adam", "adagrad", "adagrad"),
        ("adam", "7", "7"),
        ((0,), "3", (3,)),
        ((0,), "0, 1,2", (0, 1, 2)),
        ((0,), "0,x", (0, "x")),
        ((0.5,), "1, 2.5", (1.0, 2.5)),
        ((0.5,), "1,x", (1.0, "x")),
        (("MRR",), "PROBE(alpha=1,beta=0)", ("PROBE(alpha=1,beta=0)",)),
    ],
)
def test_texts_become_values_of_the_setting(default: object, text: str, value: object) -> None:
    found = from_text(default, text)
    assert found == value
    assert type(found) is type(value)


def test_a_setting_given_twice_is_no_value_of_a_single_one() -> None:
    values = from_command_line({"epochs": ["5", "6"], "seeds": ["0", "1,2"], "batch_size": ["64"]}).values
    assert from_text(1, values["epochs"]) == "5 and 6"
    assert from_text((0,), values["seeds"]) == (0, 1, 2)
    assert from_text(1, values["batch_size"]) == 64


@pytest.mark.parametrize(
    ("default", "given", "value"),
    [
        (0.5, 2, 2.0),
        (0.5, True, True),
        (0.5, 10**400, 10**400),
        (1, 2.0, 2.0),
        (1, "2", "2"),
        ((0,), [1, 2], (1, 2)),
        ((0,), 1, (1,)),
        ((0,), [1, 2.0], (1, 2.0)),
        ((0.5,), 10**400, (10**400,)),
        (("MRR",), "MR", ("MR",)),
    ],
)
def test_values_of_files_keep_their_type_unless_no_digit_is_lost(default: object, given: object, value: object) -> None:
    found = as_kind(default, given)
    assert found == value
    assert type(found) is type(value)


def test_a_list_of_numbers_has_numbers_of_one_kind() -> None:
    assert [type(one) for one in as_kind((0.5,), [1, 2.5, True])] == [float, float, bool]
    assert [type(one) for one in from_text((0.5,), ["1", "2,3"])] == [float, float, float]


def test_what_a_file_says_beside_settings_is_no_setting(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('graph_hash = "00"\nepochs = 5\n[measured]\ntest = 0.5\n[other]\nx = 1\n', encoding="utf-8")
    source = from_file(read_toml(path))
    assert dict(source.values) == {"epochs": 5, "other": {"x": 1}}
    assert source.places["other"] == f"{path}, line 5"
