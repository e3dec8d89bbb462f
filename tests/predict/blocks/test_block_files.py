"""Files of blocks: what is written is read, and whatever else lies there is named and refused."""

import json
import os
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from kgprobe.errors import DataError
from kgprobe.parquet_files import write_parquet
from kgprobe.predict.blocks import block_files
from kgprobe.predict.blocks.block_files import BlockFiles, BlockRecord
from kgprobe.predict.blocks.block_plan import Block
from kgprobe.predict.tasks import Counts

BLOCK = Block("tail", range(3, 5), range(10, 20))

COUNTS = Counts(np.array([3, 0, 9]), np.array([1, 0, 0]), np.array([9, 8, 10]))


@pytest.fixture
def files(tmp_path: Path) -> BlockFiles:
    for name in ("blocks", "running"):
        (tmp_path / name).mkdir()
    return BlockFiles(tmp_path / "blocks", tmp_path / "running", "some ranking")


def columns(counts: Counts) -> list[list[int]]:
    return [counts.greater.tolist(), counts.equal.tolist(), counts.others.tolist()]


def test_counts_are_read_as_they_were_written(files: BlockFiles) -> None:
    assert (files.names(), files.is_finished(BLOCK)) == (set(), False)
    files.write(BLOCK, COUNTS, 1.5, part="2/3", place="node 7")
    assert columns(files.read(BLOCK, 3)) == columns(COUNTS)
    assert files.names() == {BLOCK.id("some ranking")}
    assert files.record(BLOCK) == BlockRecord(BLOCK.id("some ranking"), "some ranking", 1.5, "2/3", "node 7")
    assert files.problems({BLOCK: 3}) == []


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_truncated_file_is_refused(files: BlockFiles, share: float) -> None:
    files.write(BLOCK, COUNTS, 1.5)
    content = files.path(BLOCK).read_bytes()
    files.path(BLOCK).write_bytes(content[: int(share * len(content))])
    assert len(files.problems({BLOCK: 3})) == 1
    assert str(files.path(BLOCK)) in files.problems({BLOCK: 3})[0]


def test_every_flipped_byte_is_refused(files: BlockFiles) -> None:
    files.write(BLOCK, COUNTS, 1.5)
    content = files.path(BLOCK).read_bytes()
    for position in range(0, len(content), 7):
        changed = bytearray(content)
        changed[position] ^= 0x10
        files.path(BLOCK).write_bytes(changed)
        with pytest.raises(DataError, match=BLOCK.id("some ranking")):
            files.read(BLOCK, 3)


def record(block: Block = BLOCK, ranking: str = "some ranking") -> str:
    return json.dumps(asdict(BlockRecord(block.id(ranking), ranking, 1.0)))


GOOD = {"greater": [3, 0, 9], "equal": [1, 0, 0], "others": [9, 8, 10]}

FOREIGN: dict[str, tuple[dict[str, list[object]], str | None, str]] = {
    "of another ranking": (GOOD, record(ranking="other"), "of the ranking 'other'"),
    "of this block in another ranking": (GOOD, record().replace("some ranking", "another"), "of the ranking 'another'"),
    "of another block": (GOOD, record(Block("head", range(3, 5), range(10, 20))), "it holds the block"),
    "no record": (GOOD, None, "no record"),
    "a broken record": (GOOD, "{", "no record"),
    "another record": (GOOD, '{"block": 5}', "no record"),
    "a list": (GOOD, "[1, 2]", "no record"),
    "seconds as text": (GOOD, record().replace("1.0", '"x"'), "it holds the block"),
    "fewer rows": ({name: values[:2] for name, values in GOOD.items()}, record(), "2 rows for 3 targets"),
    "a column less": ({"greater": [3, 0, 9], "equal": [1, 0, 0]}, record(), "its columns are"),
    "floats": ({**GOOD, "equal": [1.0, 0.0, 0.5]}, record(), "its columns are"),
    "negative": ({**GOOD, "equal": [1, -1, 0]}, record(), "cannot give"),
    "more than others": ({**GOOD, "equal": [1, 9, 0]}, record(), "cannot give"),
    "more than entities": ({**GOOD, "others": [11, 8, 10]}, record(), "cannot give"),
    "null": ({**GOOD, "others": [None, 8, 10]}, record(), "null"),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_the_counts_of_something_else_are_refused(files: BlockFiles, kind: str) -> None:
    values, text, reason = FOREIGN[kind]
    table = pa.table(values).replace_schema_metadata({} if text is None else {b"kgprobe block": text.encode()})
    write_parquet(table, files.path(BLOCK))
    with pytest.raises(DataError, match="tail queries 3 to 4, entities 10 to 19") as caught:
        files.read(BLOCK, 3)
    assert reason in str(caught.value)


def test_other_files_are_named(files: BlockFiles) -> None:
    files.write(BLOCK, COUNTS, 1.5)
    (files.finished / ".kgprobe.01234567890123456789.tmp").touch()  # of a process that was killed
    assert len(files.names()) == 1
    for name in ("notes.txt", "block.parquet", f"{'0' * 31}.parquet"):
        (files.finished / name).touch()
    with pytest.raises(DataError, match="invalid files") as caught:
        files.names()
    assert len(caught.value.problems) == 3


def test_signs_of_life_come_and_go(files: BlockFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_files, "_BEAT", 0.01)
    with files.beating(BLOCK, "node 7"):
        (sign,) = files.beats()
        assert (sign.block, sign.place, sign.is_alive) == (BLOCK.id("some ranking"), "node 7", True)
        (path,) = files.running.iterdir()
        os.utime(path, (0, 0))
        until = time.monotonic() + 20
        while path.stat().st_mtime < 1000 and time.monotonic() < until:
            time.sleep(0.01)
        assert path.stat().st_mtime > 1000
    assert files.beats() == []


def test_a_process_that_gives_no_sign_of_life_is_dead(files: BlockFiles) -> None:
    with files.beating(BLOCK):
        (path,) = files.running.iterdir()
        os.utime(path, (time.time() - 61, time.time() - 61))
        (sign,) = files.beats()
        assert not sign.is_alive
        assert sign.silent > 60


def test_counts_are_written_where_no_sign_of_life_can_be(files: BlockFiles) -> None:
    files.running.rmdir()
    with files.beating(BLOCK):
        files.write(BLOCK, COUNTS, 1.0)
    assert columns(files.read(BLOCK, 3)) == columns(COUNTS)
