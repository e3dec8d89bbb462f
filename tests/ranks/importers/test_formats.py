import inspect
import json
from functools import partial
from pathlib import Path

import pytest

from kgprobe.ranks.importers import IMPORTERS, import_probe_json, import_table

CONTENT = {
    "probe-json": json.dumps([[[0, 0, 1], "t", 1.0, 0.1, 0.1, 0]]),
    "csv": "h,r,t,side,rank,filtered\n0,0,1,tail,1,0\n",
    "tsv": "h\tr\tt\tside\trank\tfiltered\n0\t0\t1\ttail\t1\t0\n",
}


def test_there_is_a_reader_for_each_format() -> None:
    assert list(IMPORTERS) == ["probe-json", "csv", "tsv", "parquet"]


@pytest.mark.parametrize("name", CONTENT)
def test_the_format_counts_and_not_the_name_of_the_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / "ranks.parquet"
    path.write_text(CONTENT[name])
    ranks = IMPORTERS[name].read([path], num_entities=5, graph=None, model=None, split=None, seed=None)
    assert ranks.candidates.tolist() == [5]
    assert ranks.info.settings["format"] == name


@pytest.mark.parametrize("name", IMPORTERS)
def test_options_are_parameters_of_the_reader(name: str) -> None:
    importer = IMPORTERS[name]
    function = importer.read.func if isinstance(importer.read, partial) else importer.read
    assert function in (import_table, import_probe_json)
    parameters = set(inspect.signature(function).parameters)
    assert parameters - {"format"} == importer.options | {"paths", "graph", "num_entities", "model", "split", "seed"}
