"""The package as a whole: light to import, layered, and with a public face that works."""

import inspect
import json
import pkgutil
import pydoc
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

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
    "polars",
    "scipy",
    "typer",
    "h5py",
)


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_import_loads_none_of_the_extras() -> None:
    code = f"import json, sys, kgprobe; print(json.dumps([m for m in {EXTRAS} if m in sys.modules]))"
    assert json.loads(run(code)) == []


def test_every_public_name_is_there() -> None:
    assert [name for name in kgprobe.__all__ if not hasattr(kgprobe, name)] == []
    assert len(set(kgprobe.__all__)) == len(kgprobe.__all__)


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


def modules() -> list[str]:
    """Every module of the package that can be imported here, by its dotted name."""
    names = [module.name for module in pkgutil.walk_packages(kgprobe.__path__, "kgprobe.")]
    needs_triton = find_spec("triton") is None
    return [name for name in names if not name.endswith("__main__") and not (needs_triton and name.endswith("triton"))]


@pytest.mark.parametrize("name", modules())
def test_no_public_name_shadows_a_module(name: str) -> None:
    module = import_module(name)
    package, _, own = name.rpartition(".")
    assert getattr(import_module(package), own) is module


def test_tests_mirror_the_sources() -> None:
    """A test file is named after its source: test_SOURCE.py, or test_SOURCE_ASPECT.py, in the same folder."""
    tests, sources = Path(__file__).parent, Path(kgprobe.__file__).parent
    strange = []
    for path in tests.rglob("test_*.py"):
        folder = sources / path.parent.relative_to(tests)
        stems = [file.stem.rstrip("_") for file in folder.glob("*.py")] + [folder.name, "package"]
        own = path.stem.removeprefix("test_")
        if not any(own == stem or own.startswith(f"{stem}_") for stem in stems):
            strange.append(str(path.relative_to(tests)))
    assert strange == []


def test_every_argument_graph_takes_a_graph_a_directory_or_a_name() -> None:
    functions = [getattr(kgprobe, name) for name in kgprobe.__all__]
    taking = [f for f in functions if inspect.isfunction(f) and "graph" in inspect.signature(f).parameters]
    assert {f.__name__ for f in taking} >= {"rank", "evaluate", "compare", "check", "decide", "fit", "import_ranks"}
    kinds = {f.__name__: str(inspect.signature(f).parameters["graph"].annotation) for f in taking}
    assert [name for name, kind in kinds.items() if "GraphLike" not in kind] == []


def test_a_graph_by_its_directory_gives_the_same_results(tmp_path: Path) -> None:
    triples = {"train": [[0, 0, 1], [1, 0, 2], [2, 1, 0]], "test": [[0, 0, 2], [2, 0, 1]]}
    graph = kgprobe.KnowledgeGraph.from_triples(**triples, num_entities=9)
    graph.write(tmp_path / "tiny")
    path = str(tmp_path / "tiny")
    ranks = kgprobe.rank("random", path)
    assert ranks.rank.tolist() == kgprobe.rank("random", graph).rank.tolist()
    weighted = kgprobe.metrics.PROBE(beta=0.5)
    assert kgprobe.evaluate(ranks, weighted, graph=path) == kgprobe.evaluate(ranks, weighted, graph=graph)
    assert kgprobe.check({"mine": ranks}, path) == kgprobe.check({"mine": ranks}, graph)
    by_path = kgprobe.compare({"mine": ranks}, weighted, graph=path, replicates=100, permutations=100)
    assert (
        by_path.to_rows()
        == kgprobe.compare({"mine": ranks}, weighted, graph=graph, replicates=100, permutations=100).to_rows()
    )


def test_every_public_name_is_completed_and_documented() -> None:
    assert set(kgprobe.__all__) <= set(dir(kgprobe))
    told = pydoc.render_doc(kgprobe, renderer=pydoc.plaintext)  # type: ignore[attr-defined]
    assert [name for name in kgprobe.__all__ if name not in told] == []


def test_without_torch_help_works_and_training_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import kgprobe, pydoc\n"
        "assert 'estimate_closed' in pydoc.render_doc(kgprobe)\n"
        "try: kgprobe.fit\n"
        "except kgprobe.UsageError as error: print(error)"
    )
    assert run(code) == "kgprobe.fit needs torch\nRemedy: pip install 'kgprobe[models]'\n"


def test_every_argument_ranks_comes_first_and_takes_a_path() -> None:
    functions = [getattr(kgprobe, name) for name in kgprobe.__all__]
    taking = {f.__name__: inspect.signature(f).parameters for f in functions if inspect.isfunction(f)}
    taking.pop("run_study")  # it takes folders of rank files, as the option --ranks of `kgprobe study run`
    first = {name: next(iter(parameters)) for name, parameters in taking.items() if "ranks" in parameters}
    assert set(first) == {
        "evaluate",
        "scores",
        "surface",
        "compare",
        "check",
        "decide",
        "decision_map",
        "estimate_closed",
    }
    assert set(first.values()) == {"ranks"}
    assert {str(taking[name]["ranks"].annotation) for name in first} <= {"RanksLike", "NamedRanks", "Models"}
