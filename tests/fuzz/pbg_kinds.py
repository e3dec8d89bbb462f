"""Models of PyTorch-BigGraph: checkpoints in HDF5, and exports as text."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import h5py
import numpy as np

from fuzz.inputs import Files, Kind, require
from fuzz.plain import ENTITIES, RELATIONS, content, small_graph, text_lines
from kgprobe.predict import rank
from pbg_models import OPERATORS, Plain, configuration, stored_names, write_checkpoint
from ranking import Rows, rows_of

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)


@cache
def checkpoints() -> list[Files]:
    """Dynamic relations in three partitions, and two relations between two types that share names."""
    dynamic = configuration("cos", max_norm=1.0)
    typed = configuration("squared_l2", dynamic=False, bias=True, dimension=2)
    typed["relations"] = [
        {"name": name, "lhs": "people", "rhs": "things", "operator": operator}
        for name, operator in zip(RELATIONS, ("none", "complex_diagonal"), strict=True)
    ]
    files: list[Files] = []
    with TemporaryDirectory() as place:
        for name, config in (("dynamic", dynamic), ("typed", typed)):
            folder = Path(place) / name
            names = dict.fromkeys(config["entities"], ENTITIES[::-1])
            write_checkpoint(folder, config, names, RELATIONS[::-1])
            files.append({path.name: path.read_bytes() for path in sorted(folder.iterdir())})
    return files


def read(folder: Path) -> Any:
    path = folder if not (folder / "joined.tsv").exists() else folder / "joined.tsv"
    return _listed(rows_of(rank(path, small_graph())))


def _listed(rows: Rows) -> list[Any]:
    return [[*map(str, row), *values] for row, values in sorted(rows.items())]


class _Strict(Plain):
    """A checkpoint whose files are compared with each other and with the small graph."""

    def __init__(self, folder: Path) -> None:
        for path in folder.glob("*.json"):
            path.write_bytes(path.read_bytes().removeprefix(b"\xef\xbb\xbf"))
        raw = json.loads((folder / "config.json").read_bytes())
        require(isinstance(raw, dict), "no configuration")
        text = (folder / "checkpoint_version.txt").read_text()
        require(re.fullmatch(r"\s*0*[1-9][0-9]*\s*", text), "no version")
        raw = configuration("dot") | {"global_emb": True, "dynamic_relations": False} | _snake(raw)
        raw["entities"] = {kind: _snake(about) for kind, about in raw["entities"].items()}
        (folder / "config.json").write_text(json.dumps(raw))
        (folder / "checkpoint_version.txt").write_text(str(int(text)))
        super().__init__(folder)
        check(self, folder)


def _snake(content: dict[str, Any]) -> dict[str, Any]:
    return {re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", key): value for key, value in content.items()}


def check(plain: Plain, folder: Path) -> None:
    """The rules of a checkpoint, one after the other."""
    config = plain.config
    require(isinstance(config["entities"], dict) and config["entities"], "no entity types")
    require(config["comparator"] in ("dot", "cos", "l2", "squared_l2"), "an unknown comparator")
    require(all(type(config[key]) is bool for key in ("bias", "global_emb", "dynamic_relations")), "not true or false")
    most = config["max_norm"]
    require(most is None or (type(most) in (int, float) and 0 < most <= float(np.finfo("f4").max)), "a largest norm")
    require(type(config["dimension"]) is int, "no dimension")
    require(not (plain.dynamic and (config["global_emb"] or len(config["relations"]) != 1)), "a contradiction")
    require(all(relation.get("operator", "none") in OPERATORS for relation in config["relations"]), "an operator")
    for relation in config["relations"]:
        relation.setdefault("operator", "none")
        require(isinstance(relation["name"], str) and relation["name"], "no name")
    expected = stored_names(config, len(plain.relations))
    require({name: values.shape for name, values in plain.found.items()} == expected, "other parameters")
    for kind, rows in plain.rows.items():
        names = plain.names[kind]
        require(rows.shape == (len(names), config["dimension"]), "other sizes")
        require(len(set(names)) == len(names) and set(names) <= set(ENTITIES), "other names")
    used = {relation[end] for relation in config["relations"] for end in ("lhs", "rhs")}
    require({name for kind in used for name in plain.names[kind]} == set(ENTITIES), "missing names")
    require(sorted(plain.relations) == sorted(RELATIONS), "other relations")
    with np.errstate(over="ignore"):
        require(all(np.isfinite(v.astype("f4")).all() for v in (*plain.rows.values(), *plain.found.values())), "NaN")
    for path in folder.glob("*.h5"):
        with h5py.File(path) as file:
            require(path.name[-5:] != "v7.h5" or file.attrs["format_version"] == 1, "another format")
    for path in folder.glob("entity_count_*_?.txt"):
        kind, part = path.stem.removeprefix("entity_count_").rsplit("_", 1)
        names_file = folder / f"entity_names_{kind}_{part}.json"
        if kind in config["entities"] and int(part) < config["entities"][kind]["num_partitions"]:
            require(int(path.read_text()) == len(json.loads(names_file.read_bytes())), "another count")
    if plain.dynamic and (folder / "dynamic_rel_count.txt").exists():
        require(int((folder / "dynamic_rel_count.txt").read_text()) == len(plain.relations), "another count")


def expect(folder: Path) -> Any:
    return _listed(_Strict(folder).ranks(small_graph()))


@cache
def exports() -> list[Files]:
    """Two files with the lines of a complex operator, and one file of the older layout."""
    config = configuration("dot")
    rng = np.random.default_rng(3)
    entities = "".join(_line([name], rng) for name in ENTITIES[::-1])
    old = "".join(_line([f"{name}{end}"], rng) for end in ("", "_reverse_relation") for name in RELATIONS[::-1])
    turned = json.loads(json.dumps(config))
    turned["relations"][0]["operator"] = "complex_diagonal"
    lines = [
        _line([name, end, "complex_diagonal", parameter, "2"], rng, 2)
        for end in ("lhs", "rhs")
        for parameter in ("real", "imag")
        for name in RELATIONS
    ]
    return [
        {
            "config.json": json.dumps(turned).encode(),
            "entity_embeddings.tsv": entities.encode(),
            "relation_types_parameters.tsv": "".join(lines).encode(),
        },
        {"config.json": json.dumps(config).encode(), "joined.tsv": f"6\t2\t4\n{entities}{old}".encode()},
    ]


def _line(texts: list[str], rng: np.random.Generator, size: int = 4) -> str:
    return "\t".join([*texts, *(f"{x:.9f}" for x in rng.normal(size=size))]) + "\n"


class _Export(Plain):
    """An export, read line by line."""

    def __init__(self, folder: Path) -> None:
        self.config = configuration("dot") | {"global_emb": True, "dynamic_relations": False}
        self.config |= _snake(json.loads((folder / "config.json").read_bytes().removeprefix(b"\xef\xbb\xbf")))
        config = self.config
        self.dynamic = config["dynamic_relations"]
        (kind,) = config["entities"]
        old = (folder / "joined.tsv").exists()
        path = folder / ("joined.tsv" if old else "entity_embeddings.tsv")
        rows = [text.split("\t") for _, text in text_lines(path if path.exists() else folder / f"{path.name}.gz")]
        sizes = [int(field) for field in rows.pop(0)] if old else [len(rows), 0, config["dimension"]]
        require(sizes[2] == config["dimension"], "another dimension")
        table = np.array([_numbers(row[1:], config["dimension"]) for row in rows])
        self.names = {kind: [row[0] for row in rows[: sizes[0]]]}
        self.rows = {kind: table[: sizes[0]]}
        operator = config["relations"][0].get("operator", "none")
        self.found = {}
        if old:
            names, (count, odd) = [row[0] for row in rows[sizes[0] :]], divmod(len(rows) - sizes[0], 2)
            self.relations = names[:count]
            require(not odd and names[count:] == [f"{name}_reverse_relation" for name in self.relations], "no pairs")
            require(operator in ("translation", "diagonal"), "several vectors")
            for end, values in (("rhs", table[sizes[0] :][:count]), ("lhs", table[sizes[0] + count :])):
                self.found[f"relations/0/operator/{end}/{operator}s"] = values
        else:
            self._lines(folder, operator)
        check(self, folder)

    def _lines(self, folder: Path, operator: str) -> None:
        path = folder / "relation_types_parameters.tsv"
        path = path if path.exists() else path.with_name(f"{path.name}.gz")
        lines = [line.split("\t") for line in content(path).decode().splitlines() if line]
        found: dict[tuple[str, str, str], Any] = {}
        for name, end, own, parameter, shape, *fields in lines:
            require(own == operator and (name, end, parameter) not in found, "another operator, or twice")
            sizes = [int(size) for size in shape.split("x")]
            require("x".join(map(str, sizes)) == shape, "another shape")
            found[name, end, parameter] = np.array(_numbers(fields, int(np.prod(sizes)))).reshape(sizes)
        self.relations = list(dict.fromkeys(name for name, _, _ in found)) or list(RELATIONS)
        for name in stored_names(self.config | {"global_emb": False}, len(self.relations)):
            _, _, _, end, parameter = name.split("/")
            self.found[name] = np.array([found.pop((relation, end, parameter)) for relation in self.relations])
        require(not found, "other parameters")


def _numbers(fields: list[str], size: int) -> list[float]:
    require(len(fields) == size and all(_NUMBER.fullmatch(field.strip()) for field in fields), "not numbers")
    with np.errstate(over="ignore"):
        return [float(np.float32(field.strip())) for field in fields]


def expect_export(folder: Path) -> Any:
    return _listed(_Export(folder).ranks(small_graph()))


KINDS = (
    Kind("pbg-checkpoint", checkpoints, read, expect),
    Kind("pbg-export", exports, read, expect_export),
)
