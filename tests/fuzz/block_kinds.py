"""Directories of rankings by blocks, which are merged into a rank table."""

from __future__ import annotations

import hashlib
import json
import zlib
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq

from fuzz.inputs import Files, Kind, require
from fuzz.plain import read_parquet, small_graph
from kgprobe.predict import Opening, Resources, Setting, count_blocks, open_model
from kgprobe.predict.blocks.block_counting import ByBlocks
from kgprobe.predict.blocks.ranking_directory import RankingDirectory

_MARK = b"\nkgprobe crc32 of this file: "


def rankings() -> list[Files]:
    """Rankings of a few blocks, on both sides and on one."""
    made = []
    for sides, shards in (("both", 2), ("head", 1)):
        setting = Setting.build(small_graph(), sides=sides)
        model = open_model("random", Opening(setting.graph, setting.ranked))
        with TemporaryDirectory() as folder:
            count_blocks(setting, model, ByBlocks(Path(folder) / "ranking"), Resources(shards=shards))
            files = [file for file in Path(folder).rglob("*") if file.is_file()]
            made.append({str(file.relative_to(folder)): file.read_bytes() for file in files})
    return made


def read_ranking(folder: Path) -> Any:
    (folder / "ranking" / "running").mkdir(parents=True, exist_ok=True)
    ranks = RankingDirectory.open(folder / "ranking").merged()
    return {name: ranks[name].tolist() for name in ("head", "tail", "side", "rank", "ties", "candidates")}


def plain_ranking(folder: Path) -> Any:
    """The same by loops over the blocks, in the order of the queries by relation and given entity."""
    about = json.loads((folder / "ranking" / "ranking.json").read_text("utf-8-sig"))
    digest = about.pop("sha256")
    require(digest == hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest(), "the JSON has changed")
    rows = read_parquet(folder / "ranking" / "queries.parquet").to_pylist()
    found: dict[tuple[Any, ...], list[int]] = {_query(row): [0, 0, 0] for row in rows}
    require(len(found) == len(rows), "a query occurs twice")
    files = 0
    for side, cuts in about["plan"]["queries"].items():
        answer, given = ("tail", "head") if side == "tail" else ("head", "tail")
        asked = sorted({(row["relation"], row[given]) for row in rows if row["side"] == side})
        for entities in pairwise(about["plan"]["entities"]):
            for start, stop in pairwise(cuts):
                some = asked[start:stop]
                own = [
                    row
                    for pair in some
                    for row in rows
                    if row["side"] == side and (row["relation"], row[given]) == pair
                ]
                ends = json.dumps([about["ranking"], side, start, stop, *entities])
                name = hashlib.sha256(ends.encode()).hexdigest()[:32]
                counts = _counts(folder / "ranking" / "blocks" / f"{name}.parquet")
                require(len(counts) == len(own), "rows of a block")
                files += 1
                for row, more in zip(own, counts, strict=True):
                    require(row[answer] is not None, "a target")
                    found[_query(row)] = [a + b for a, b in zip(found[_query(row)], more, strict=True)]
    require(files == len(list((folder / "ranking" / "blocks").iterdir())), "other files")
    columns = {name: [row[name] for row in rows] for name in ("head", "tail", "side")}
    counted = [found[_query(row)] for row in rows]
    return columns | {
        "rank": [1 + greater + equal / 2 for greater, equal, _ in counted],
        "ties": [equal for _, equal, _ in counted],
        "candidates": [1 + others for _, _, others in counted],
    }


def _query(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["side"], row["head"], row["relation"], row["tail"]


def _counts(path: Path) -> list[list[int]]:
    content = path.read_bytes()
    at = content.rfind(_MARK) + len(_MARK)
    require(at >= len(_MARK), "no checksum")
    crc = zlib.crc32(content[at + 8 :], zlib.crc32(content[:at]))
    require(content[at : at + 8] == f"{crc:08x}".encode(), "the file has changed")
    table = pq.read_table(path)
    return [list(row) for row in zip(*(table.column(name).to_pylist() for name in table.column_names), strict=True)]


KINDS = (Kind("ranking-by-blocks", rankings, read_ranking, plain_ranking),)
