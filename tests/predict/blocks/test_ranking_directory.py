"""Directories of rankings: created once, joined by equal rankings alone, merged when they are complete."""

import json
import os
import resource
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgprobe as kp
from kgprobe.errors import DataError, UsageError
from kgprobe.predict import Dot, Model, Resources, Setting, count_blocks, rank_in
from kgprobe.predict.adapters.embedding_files import write_embeddings
from kgprobe.predict.blocks import block_plan
from kgprobe.predict.blocks.block_counting import ByBlocks
from kgprobe.predict.blocks.block_plan import Part
from kgprobe.predict.blocks.ranking_directory import MANIFEST, RankingDirectory
from ranking import graph_of, vectors

GRAPH = graph_of(seed=5, entities=30, relations=4, facts=200)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgprobe.predict.encoding._ENCODED_AT_ONCE", 6 * 20)
    monkeypatch.setattr(block_plan, "_LEAST_QUERIES", 1)
    monkeypatch.setattr(block_plan, "_PRODUCTS", 1)


def in_memory(seed: int = 1) -> Model:
    return Model("mine", vectors("random", Dot(), GRAPH, 6, seed))


def count(path: Path, model: Model, part: str | None = None, setting: Setting | None = None) -> RankingDirectory:
    by = ByBlocks(path, part=Part.parse(part) if part else None)
    return count_blocks(setting or Setting.build(GRAPH), model, by, Resources(shards=2))


def written(ranks: kp.Ranks, path: Path) -> bytes:
    ranks.write(path)
    return path.read_bytes()


@pytest.fixture
def expected(tmp_path: Path) -> bytes:
    """The rank file without blocks."""
    return written(rank_in(Setting.build(GRAPH), in_memory(), Resources()), tmp_path / "expected.parquet")


def test_parts_make_the_whole(tmp_path: Path, expected: bytes) -> None:
    path = tmp_path / "ranking"
    for part in ("3/3", "1/3"):
        directory = count(path, in_memory(), part)
    blocks = len(directory.plan.blocks)
    assert blocks >= 6
    missing = len(directory.plan.part(2, 3))
    with pytest.raises(DataError, match=f"{missing} of {blocks} blocks are missing") as caught:
        directory.merged()
    assert "parts 2 of 3 were not run, or not to their end" in caught.value.problems
    count(path, in_memory(), "2/3")
    assert written(RankingDirectory.open(path).merged(), tmp_path / "found.parquet") == expected


def test_a_ranking_that_is_whole_is_not_counted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count(tmp_path / "ranking", in_memory())
    monkeypatch.setattr(
        "kgprobe.predict.blocks.block_counting.count_block", lambda *_: pytest.fail("a block was counted")
    )
    seen: list[float] = []
    by = ByBlocks(tmp_path / "ranking")
    setting = Setting.build(GRAPH)
    count_blocks(setting, in_memory(), by, Resources(), progress=seen.append)
    assert sum(seen) == pytest.approx(setting.queries)


def test_only_missing_blocks_are_counted(tmp_path: Path, expected: bytes) -> None:
    directory = count(tmp_path / "ranking", in_memory())
    kept = {file: file.stat().st_mtime_ns for file in directory.blocks.finished.iterdir()}
    gone = [directory.blocks.path(block) for block in directory.plan.blocks[::3]]
    for file in gone:
        file.unlink()
    count(tmp_path / "ranking", in_memory())
    after = {file: file.stat().st_mtime_ns for file in directory.blocks.finished.iterdir()}
    assert {file for file in kept if kept[file] != after[file]} == set(gone)
    assert written(directory.merged(), tmp_path / "found.parquet") == expected


@pytest.mark.parametrize(
    ("setting", "model", "problem"),
    [
        (Setting.build(GRAPH), in_memory(seed=2), "other weights"),
        (Setting.build(GRAPH, filter="none"), in_memory(), "other known triples are filtered"),
        (Setting.build(GRAPH, sides="head"), in_memory(), "other triples or sides"),
    ],
)
def test_another_ranking_is_refused_and_loses_nothing(
    tmp_path: Path, expected: bytes, setting: Setting, model: Model, problem: str
) -> None:
    directory = count(tmp_path / "ranking", in_memory())
    with pytest.raises(UsageError, match="it holds the blocks of another ranking") as caught:
        count(tmp_path / "ranking", model, setting=setting)
    assert any(problem in line for line in caught.value.problems)
    assert written(directory.merged(), tmp_path / "found.parquet") == expected


def test_a_model_file_that_changed_is_named(tmp_path: Path) -> None:
    graph, model = tmp_path / "graph", tmp_path / "mine.npz"
    GRAPH.write(graph)
    rng = np.random.default_rng(0)
    arrays = {"entity": rng.normal(size=(30, 4)), "relation": rng.normal(size=(4, 4))}
    write_embeddings(model, {"model": "DistMult"}, arrays)
    first = kp.rank(model, graph, blocks=tmp_path / "ranking")
    arrays["entity"][29, 3] += 1e-3
    write_embeddings(model, {"model": "DistMult"}, arrays)
    with pytest.raises(UsageError, match="another ranking") as caught:
        kp.rank(model, graph, blocks=tmp_path / "ranking")
    assert caught.value.problems == ["the model has other weights, or is another one"]
    assert RankingDirectory.open(tmp_path / "ranking").merged().rank.tolist() == first.rank.tolist()


def test_damaged_blocks_are_all_named_when_they_are_merged_or_continued(tmp_path: Path, expected: bytes) -> None:
    directory = count(tmp_path / "ranking", in_memory())
    paths = [directory.blocks.path(block) for block in directory.plan.blocks]
    contents = [path.read_bytes() for path in paths[:3]]
    paths[0].write_bytes(contents[0][:-20])
    paths[1].write_bytes(contents[1].replace(b"greater", b"Greater"))
    paths[2].write_bytes(paths[4].read_bytes())  # of another block
    for attempt in (directory.merged, lambda: count(tmp_path / "ranking", in_memory())):
        with pytest.raises(DataError, match="3 blocks cannot be used") as caught:
            attempt()
        assert [path.name in line for path, line in zip(paths[:3], caught.value.problems, strict=True)] == [True] * 3
    for path in paths[:3]:
        path.unlink()
    count(tmp_path / "ranking", in_memory())
    assert written(directory.merged(), tmp_path / "found.parquet") == expected


def test_blocks_of_another_ranking_are_refused(tmp_path: Path) -> None:
    one, other = (count(tmp_path / str(seed), in_memory(seed)) for seed in (1, 2))
    shutil.copy(next(other.blocks.finished.iterdir()), one.blocks.finished)
    with pytest.raises(DataError, match="1 blocks cannot be used") as caught:
        one.merged()
    assert "not a block of this ranking" in caught.value.problems[0]


def test_a_damaged_description_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ranking"
    count(path, in_memory())
    text = (path / MANIFEST).read_text("utf-8")
    changes = {
        text[:100]: "not the JSON",
        text.replace('"batch": 0', '"batch": 7'): "it has changed since it was written",
        "{}": "plan is missing",
        "": "not the JSON",
    }
    for changed, problem in changes.items():
        (path / MANIFEST).write_text(changed, encoding="utf-8")
        with pytest.raises(DataError, match=r"ranking\.json") as caught:
            RankingDirectory.open(path)
        assert problem in str(caught.value)


@pytest.mark.parametrize("change", [{"schema": 2}, {"graph": "other"}, {"unknown": 1}])
def test_a_description_of_something_else_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    from kgprobe.json_files import read_json, write_json

    path = tmp_path / "ranking"
    count(path, in_memory())
    entry = read_json(path / MANIFEST, {})
    write_json(path / MANIFEST, entry | {"identity": entry["identity"] | change})
    with pytest.raises(DataError, match="invalid content"):
        RankingDirectory.open(path)


def test_other_queries_are_refused(tmp_path: Path) -> None:
    one = count(tmp_path / "one", in_memory())
    other = count(tmp_path / "other", in_memory(), setting=Setting.build(GRAPH, split="valid"))
    shutil.copy(other.path / "queries.parquet", one.path / "queries.parquet")
    with pytest.raises(DataError, match="not the queries of this ranking"):
        one.merged()


def test_a_directory_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("chapter 1", encoding="utf-8")
    with pytest.raises(UsageError, match="other files than those of a ranking"):
        count(tmp_path, in_memory())
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(UsageError, match="it is a file"):
        count(tmp_path / "thesis.tex", in_memory())
    with pytest.raises(DataError, match="there is no such directory"):
        RankingDirectory.open(tmp_path / "nowhere")


def test_a_directory_that_another_process_is_creating_may_be_joined(tmp_path: Path, expected: bytes) -> None:
    path = tmp_path / "ranking"
    (path / "blocks").mkdir(parents=True)
    (path / ".kgprobe.01234567890123456789.tmp").touch()  # it is writing its queries, or was killed
    assert written(count(path, in_memory()).merged(), tmp_path / "found.parquet") == expected


def test_the_first_plan_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = count(tmp_path / "ranking", in_memory(), "1/4")
    monkeypatch.setattr(block_plan, "_PRODUCTS", 1 << 40)
    assert count(tmp_path / "ranking", in_memory()).plan == one.plan


def test_of_several_plans_the_first_that_is_written_counts(tmp_path: Path) -> None:
    """Two processes create a directory at the same time."""
    first = count(tmp_path / "ranking", in_memory(), "1/4")
    late = RankingDirectory(first.path, first.identity, (), block_plan.Plan({"tail": (0, 1)}, (0, 30)))
    late._create(Setting.build(GRAPH).table)
    assert RankingDirectory.open(first.path).plan == first.plan


def test_a_directory_that_another_process_creates_meanwhile_is_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: bytes
) -> None:
    build, path = block_plan.Plan.build, tmp_path / "ranking"

    def late(*arguments: Any) -> Any:
        monkeypatch.setattr(block_plan.Plan, "build", build)
        count(path, in_memory(), "1/9")  # the other process
        return build(Setting.build(GRAPH), in_memory().scorer, Resources())  # type: ignore[arg-type]

    monkeypatch.setattr(block_plan.Plan, "build", late)
    directory = count(path, in_memory())
    assert directory.plan == RankingDirectory.open(path).plan
    assert written(directory.merged(), tmp_path / "found.parquet") == expected


def test_without_hard_links_a_directory_is_created_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: bytes
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    directory = count(tmp_path / "ranking", in_memory())
    assert written(directory.merged(), tmp_path / "found.parquet") == expected


def test_the_status_adds_up(tmp_path: Path) -> None:
    directory = count(tmp_path / "ranking", in_memory(), "1/2")
    left = [block for block in directory.plan.blocks if not directory.blocks.is_finished(block)]
    with ExitStack() as stack:
        for number, block in enumerate(left[:3]):
            stack.enter_context(directory.blocks.beating(block, f"node {number}"))
        dead = next(file for file in directory.blocks.running.iterdir() if "node-2" in file.name)
        os.utime(dead, (0, 0))
        status = directory.status()
        rate = directory._rate(directory.finished(directory.plan.blocks))
    assert (status.blocks, status.done) == (len(directory.plan.blocks), len(directory.plan.blocks) - len(left))
    assert (status.running, status.stopped, status.missing) == (2, 1, len(left) - 3)
    assert status.pairs_per_second == 2 * (rate or 0) > 0
    assert status.seconds_left == pytest.approx(sum(block.pairs for block in left) / status.pairs_per_second)
    assert sorted(sign.place for _, sign in status.signs) == ["node 0", "node 1", "node 2"]
    assert directory.status().seconds_left is None  # nothing is running
    count(tmp_path / "ranking", in_memory(), "2/2")
    assert (directory.status().missing, directory.status().seconds_left) == (0, 0.0)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_folder_that_cannot_be_written_is_named_before_anything_is_counted(
    tmp_path: Path, expected: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ranking"
    count(path, in_memory(), "1/4")
    for folder in (tmp_path, *tmp_path.parents):
        if "pytest-of-" in str(folder):  # pytest gives its folders to their owner alone
            folder.chmod(folder.stat().st_mode | 0o055)
    (tmp_path / "hidden").mkdir(mode=0o700)
    name = "kgprobe.predict.blocks.block_counting.count_block"
    with monkeypatch.context() as patch:
        patch.setattr(name, lambda *_: pytest.fail("a block was counted"))
        os.seteuid(65534)  # root may write everywhere
        try:
            for there in (path, tmp_path / "new"):
                with pytest.raises(DataError, match="cannot be written"):
                    count(there, in_memory())
            with pytest.raises(DataError, match="cannot be used as the directory of a ranking"):
                count(tmp_path / "hidden" / "ranking", in_memory())
            with pytest.raises(DataError, match="cannot be used as the directory of a ranking"):
                RankingDirectory.open(tmp_path / "hidden" / "ranking")
        finally:
            os.seteuid(0)
    assert written(count(path, in_memory()).merged(), tmp_path / "found.parquet") == expected


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: bytes) -> None:
    path = tmp_path / "ranking"
    count(path, in_memory(), "1/4")
    before = sorted((path / "blocks").iterdir())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))  # a write beyond this fails, as on a full disk
    try:
        with pytest.raises(DataError, match="cannot be written"):
            count(path, in_memory())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert sorted((path / "blocks").iterdir()) == before
    assert written(count(path, in_memory()).merged(), tmp_path / "found.parquet") == expected


def test_the_description_is_text_that_people_can_read(tmp_path: Path) -> None:
    count(tmp_path / "ranking", in_memory())
    entry = json.loads((tmp_path / "ranking" / MANIFEST).read_text("utf-8"))
    assert {"ranking", "identity", "files", "plan"} < set(entry)
