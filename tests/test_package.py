"""The package as a whole: light to import, layered, and with a public face that works."""

import json
import subprocess
import sys

import pytest

import kgprobe
from kgprobe import openworld

EXTRAS = (
    "torch",
    "pykeen",
    "numba",
    "ray",
    "jinja2",
    "plotly",
    "matplotlib",
    "safetensors",
    "pandas",
    "scipy",
    "typer",
)


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_import_loads_none_of_the_extras() -> None:
    code = f"import json, sys, kgprobe; print(json.dumps([m for m in {EXTRAS} if m in sys.modules]))"
    assert json.loads(run(code)) == []


def test_every_public_name_is_there() -> None:
    assert [name for name in kgprobe.__all__ if not hasattr(kgprobe, name)] == []
    assert kgprobe.__all__ == sorted(
        kgprobe.__all__, key=lambda name: (not name.isupper(), not name[0].isupper(), name)
    )


def test_names_of_the_open_world_are_loaded_when_they_are_asked_for() -> None:
    code = "import sys, kgprobe; early = 'kgprobe.openworld' in sys.modules; kgprobe.split_world; print(early)"
    assert run(code).strip() == "False"
    assert [name for name in openworld.__all__ if not hasattr(openworld, name)] == []
    assert kgprobe.estimate_closed is openworld.estimate_closed
    for module in (kgprobe, openworld):
        with pytest.raises(AttributeError, match="no attribute 'nothing'"):
            _ = module.nothing


def test_data_flows_one_way() -> None:
    subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"], check=True
    )


def test_python_dash_m_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "kgprobe", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip().count(".") >= 1
