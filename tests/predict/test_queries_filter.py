import gzip
import hashlib
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph, TrainCounts, load_graph, text_files
from kgprobe.predict.queries import KnownFilter, RankedTriples, read_triples
from support import streaming

TRAIN, VALID, TEST = [[0, 0, 1], [1, 1, 2], [0, 0, 1]], [[0, 0, 2]], [[2, 1, 0], [3, 1, 0]]

triples = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 3)), max_size=12)


@pytest.fixture
def graph() -> KnowledgeGraph:
    return KnowledgeGraph.from_triples(train=TRAIN, valid=VALID, test=TEST, name="tiny")


def known_triples(known: KnownFilter) -> set[tuple[int, int, int]]:
    """What the index of tails holds, after the index of heads was found to hold the same."""
    if known.known is None:
        return set()
    relations = known.known.num_relations
    tails = {(key // relations, key % relations, int(t)) for key, t in zip(*known.known.tails.pairs(), strict=True)}
    heads = {(int(h), key % relations, key // relations) for key, h in zip(*known.known.heads.pairs(), strict=True)}
    assert tails == heads
    return tails


def as_set(*lists: list[list[int]]) -> set[tuple[int, ...]]:
    return {tuple(triple) for triples in lists for triple in triples}


@pytest.mark.parametrize(
    ("split", "names", "expected"),
    [
        ("train", ("train",), as_set(TRAIN)),
        ("valid", ("train", "valid"), as_set(TRAIN, VALID)),
        ("test", ("train", "valid", "test"), as_set(TRAIN, VALID, TEST)),
    ],
    ids=["train", "valid", "test"],
)
def test_a_split_is_filtered_by_itself_and_those_before(
    graph: KnowledgeGraph, split: str, names: tuple[str, ...], expected: set[tuple[int, ...]]
) -> None:
    known = KnownFilter.build(graph, split=split)
    assert known.names == names
    assert known_triples(known) == expected
    assert known.triples == len(expected)


def test_a_split_that_the_graph_does_not_have_is_no_part_of_the_usual_filter() -> None:
    graph = KnowledgeGraph.from_triples(train=TRAIN, test=TEST)
    assert KnownFilter.build(graph).names == ("train", "test")
    assert KnownFilter.build(graph, "all").names == ("train", "test")
    assert KnownFilter.build(graph, split="valid").names == ("train",)


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ("none", ()),
        ("all", ("train", "valid", "test")),
        ("valid", ("valid",)),
        ("test+valid", ("valid", "test")),
        (" test , valid,test", ("valid", "test")),
        (["test", "train"], ("train", "test")),
        (["none"], ()),
    ],
    ids=str,
)
def test_what_is_wanted_is_used(graph: KnowledgeGraph, wanted: str | list[str], names: tuple[str, ...]) -> None:
    known = KnownFilter.build(graph, wanted, split="train")
    lists = {"train": TRAIN, "valid": VALID, "test": TEST}
    assert known.names == names
    assert known_triples(known) == as_set(*(lists[name] for name in names))


def test_a_filter_of_nothing_has_no_hash(graph: KnowledgeGraph) -> None:
    nothing = KnownFilter.build(graph, "none")
    assert (nothing.known, nothing.hash, nothing.triples) == (None, None, 0)


@given(triples, triples)
def test_the_hash_is_that_of_the_distinct_triples_in_order(
    train: list[tuple[int, int, int]], test: list[tuple[int, int, int]]
) -> None:
    graph = KnowledgeGraph.from_triples(
        train=np.array(train, dtype=int).reshape(-1, 3),
        test=np.array(test, dtype=int).reshape(-1, 3),
        num_entities=4,
        num_relations=2,
    )
    rows = np.array(sorted({*train, *test}), dtype="<i8")
    assert KnownFilter.build(graph).hash == hashlib.sha256(b"4 2\n" + rows.tobytes()).hexdigest()


def test_the_hash_does_not_depend_on_order_repeats_and_origin(graph: KnowledgeGraph, tmp_path: Path) -> None:
    usual = KnownFilter.build(graph).hash
    file = tmp_path / "all.tsv"
    lines = [f"{h}\t{r}\t{t}\n" for h, r, t in [*TEST, *VALID, *TRAIN, *TEST]]
    file.write_text("".join(lines), encoding="utf-8")
    assert KnownFilter.build(graph, file).hash == usual
    moved = KnowledgeGraph.from_triples(train=TEST + VALID + TRAIN[::-1], num_entities=4, num_relations=2)
    assert KnownFilter.build(moved).hash == usual


def test_the_hash_depends_on_triples_and_sizes(graph: KnowledgeGraph) -> None:
    splits = {"train": TRAIN, "valid": VALID, "test": TEST}
    larger = [
        KnowledgeGraph.from_triples(**splits, num_entities=5),
        KnowledgeGraph.from_triples(**splits, num_relations=3),
        KnowledgeGraph.from_triples(train=TRAIN, valid=[[0, 0, 3]], test=TEST),
    ]
    hashes = {KnownFilter.build(g).hash for g in (graph, *larger)} | {KnownFilter.build(graph, "train").hash}
    assert len(hashes) == 5


def test_the_hash_is_made_in_portions(graph: KnowledgeGraph) -> None:
    whole = KnownFilter.build(graph).hash
    with streaming(2, 2, 2):
        assert KnownFilter.build(graph).hash == whole


@given(triples, triples, st.sampled_from(["both", "head", "tail"]), st.sampled_from(["train", "train+test"]))
def test_a_filter_for_ranked_triples_is_the_whole_one_for_their_queries(
    train: list[tuple[int, int, int]], test: list[tuple[int, int, int]], sides: str, choice: str
) -> None:
    splits = {"train": np.array(train, dtype=int).reshape(-1, 3), "test": np.array([*test, (3, 1, 3)])}
    graph = KnowledgeGraph.from_triples(**splits, num_entities=4, num_relations=2)
    ranked = RankedTriples.build(graph, sides=sides)
    whole, part = KnownFilter.build(graph, choice), KnownFilter.build(graph, choice, ranked=ranked)
    assert (part.hash, part.triples, part.names, part.rows) == (whole.hash, whole.triples, whole.names, whole.rows)
    for side in ranked.sides:
        queries = ranked.queries(side)
        for start, stop in ((0, len(queries)), (len(queries) - 1, len(queries))):
            for one, other in zip(*(queries.known_rows(known, start, stop) for known in (whole, part)), strict=True):
                assert one.tolist() == other.tolist()
    head, relation, tail = ranked.triples.T
    for side in ranked.sides:
        counts = [known.known.others(head, relation, tail, side == "tail").tolist() for known in (whole, part)]  # type: ignore[union-attr]
        assert counts[0] == counts[1]


def test_memory_does_not_grow_with_the_known_triples() -> None:
    rows = np.random.default_rng(0).integers(0, 1000, (500_000, 3), dtype=np.int32)
    graph = KnowledgeGraph.from_triples(train=rows, test=rows[:50], num_entities=1000, num_relations=1000)
    ranked = RankedTriples.build(graph)
    with streaming(1 << 14, 1 << 14, 1 << 15, 1 << 8):
        tracemalloc.start()
        known = KnownFilter.build(graph, ranked=ranked)
        assert known.triples > 499_000
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < rows.nbytes / 2


def test_a_filter_for_ranked_triples_refuses_other_queries(graph: KnowledgeGraph) -> None:
    known = KnownFilter.build(graph, ranked=RankedTriples.build(graph, "valid"))
    with pytest.raises(UsageError, match="cannot be looked up"):
        RankedTriples.build(graph, "test").queries("tail").known_rows(known, 0, 2)


def test_files_go_with_splits(graph: KnowledgeGraph, tmp_path: Path) -> None:
    more, ids = tmp_path / "more.tsv", tmp_path / "ids.parquet"
    more.write_text("3\t0\t3\n0\t0\t1\n", encoding="utf-8")
    pq.write_table(pa.table({"head": [3], "relation": [1], "tail": [1]}), ids)
    known = KnownFilter.build(graph, f"{more}+valid,{ids}")
    assert known.names == ("valid", "more.tsv", "ids.parquet")
    assert known_triples(known) == as_set(VALID, [[3, 0, 3], [0, 0, 1], [3, 1, 1]])
    assert known.known is not None
    assert known.known.tails.values.dtype == np.int32


def test_the_name_of_a_file_may_hold_a_plus(graph: KnowledgeGraph, tmp_path: Path) -> None:
    file = tmp_path / "a+b,c.tsv"
    file.write_text("3\t0\t3\n", encoding="utf-8")
    for wanted in (str(file), file, [file, file]):
        known = KnownFilter.build(graph, wanted)
        assert known.names == ("a+b,c.tsv",)
        assert known_triples(known) == {(3, 0, 3)}


def test_everything_wrong_with_extra_files_is_reported(graph: KnowledgeGraph, tmp_path: Path) -> None:
    more, ids = tmp_path / "more.tsv", tmp_path / "ids.parquet"
    more.write_text("3\t0\t4\n0\t0\n0\t5\t1\n", encoding="utf-8")
    pq.write_table(pa.table({"head": [9], "relation": [1], "tail": [1]}), ids)
    with pytest.raises(DataError) as caught:
        KnownFilter.build(graph, [more, ids, tmp_path])
    assert caught.value.problems[:-1] == [
        "more.tsv, line 1: '4' is no known entity: '3\\t0\\t4'",
        "more.tsv, line 2: 2 fields, expected head<TAB>relation<TAB>tail: '0\\t0'",
        "more.tsv, line 3: '5' is no known relation: '0\\t5\\t1'",
        "ids.parquet head: 1 ids outside 0..3 in rows 0 (counted from 0), for example 9",
    ]
    assert "cannot be read" in caught.value.problems[-1]


@pytest.mark.parametrize(
    ("wanted", "problems"),
    [
        (
            "vlid+tset",
            ["'vlid' is neither a split nor a file; nearest: valid", "'tset' is neither a split nor a file;"],
        ),
        ("none+train", ["'none' cannot be combined with anything else"]),
        (
            "train,all,none",
            ["'none' cannot be combined with anything else", "'all' cannot be combined with anything else"],
        ),
        ("+", ["it is empty"]),
        ([], ["it is empty"]),
        ("x" * 5000, ["is neither a split nor a file"]),
    ],
    ids=["unknown", "none and more", "all and more", "empty text", "empty list", "long"],
)
def test_requests_that_make_no_sense(graph: KnowledgeGraph, wanted: str | list[str], problems: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        KnownFilter.build(graph, wanted)
    assert len(caught.value.problems) == len(problems)
    for found, expected in zip(caught.value.problems, problems, strict=True):
        assert expected in found


def test_an_unknown_split_to_rank(graph: KnowledgeGraph) -> None:
    with pytest.raises(UsageError, match="no split is called 'tset'; nearest: test"):
        KnownFilter.build(graph, split="tset")


def test_a_graph_of_counts_never_filters_less_in_silence() -> None:
    none = np.array([], dtype=np.int64)
    counts = TrainCounts.from_pairs(np.array([1, 1, 0, 0]), none, none, none, num_relations=2)
    splits = {"valid": np.array(VALID), "test": np.array(TEST)}
    graph = KnowledgeGraph("counted", 4, 2, splits, train_counts=counts)
    for wanted in (None, "all", "train", "train+test"):
        with pytest.raises(DataError) as caught:
            KnownFilter.build(graph, wanted)
        assert caught.value.problems == ["the graph has only counts of its training triples, not the triples"]
        assert "filter='valid+test'" in caught.value.remedy
    assert KnownFilter.build(graph, "valid+test").names == ("valid", "test")
    assert KnownFilter.build(graph, "none").names == ()


def test_a_split_that_is_named_must_be_there() -> None:
    graph = KnowledgeGraph.from_triples(train=TRAIN, test=TEST)
    with pytest.raises(DataError, match="this filter cannot be built") as caught:
        KnownFilter.build(graph, "train+valid")
    assert caught.value.problems == ["there is no split 'valid'"]


def test_real_graph(data: Path) -> None:
    graph = load_graph(data / "graphs" / "fb15k-237")
    known = KnownFilter.build(graph)
    assert known.triples == 272_115 + 17_535 + 20_466
    distinct = np.unique(graph.triples(), axis=0).astype("<i8")
    assert known.hash == hashlib.sha256(b"14541 237\n" + distinct.tobytes()).hexdigest()


def test_real_graph_of_counts(data: Path) -> None:
    with pytest.raises(DataError, match="default filter cannot be built"):
        KnownFilter.build(load_graph(data / "graphs" / "yago3-10"))


@pytest.fixture
def graph_triples() -> KnowledgeGraph:
    return KnowledgeGraph.from_triples(
        entity_labels=["Ada", "New York", "NA"], relation_labels=["lives in", "knows"], name="people"
    )


LINES = "Ada\tlives in\tNew York\nNA\tknows\tAda\n"

IDS = [[0, 0, 1], [2, 1, 0]]


def test_labelled_lines(graph_triples: KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "read_lines", lambda *_, **__: pytest.fail("read line by line"))
    (tmp_path / "more.txt").write_text(LINES, encoding="utf-8")
    (tmp_path / "more.tsv.gz").write_bytes(gzip.compress(LINES.encode()))
    for name in ("more.txt", "more.tsv.gz"):
        triples = read_triples(tmp_path / name, graph_triples, [])
        assert triples is not None
        assert triples.tolist() == IDS


def test_ids_in_parquet(graph_triples: KnowledgeGraph, tmp_path: Path) -> None:
    path = tmp_path / "more.parquet"
    table = {"tail": [1, 0], "relation": [0, 1], "head": [0, 2], "weight": [0.5, 1.0]}
    pq.write_table(pa.table(table), path)
    triples = read_triples(path, graph_triples, [])
    assert triples is not None
    assert triples.tolist() == IDS


@pytest.mark.parametrize("gap", [" ", "\t"], ids=["space", "tab"])
def test_ids_as_in_openke(graph_triples: KnowledgeGraph, tmp_path: Path, gap: str) -> None:
    lines = f"2\n0{gap}1{gap}0\n2{gap}0{gap}1\n".encode()
    (tmp_path / "test2id.txt").write_bytes(lines)
    (tmp_path / "test2id.txt.gz").write_bytes(gzip.compress(lines))
    for name in ("test2id.txt", "test2id.txt.gz"):
        triples = read_triples(tmp_path / name, graph_triples, [])
        assert triples is not None
        assert triples.tolist() == IDS


def test_a_graph_without_labels_is_read_by_ids(tmp_path: Path) -> None:
    path = tmp_path / "more.tsv"
    path.write_text("11\t0\t10\n", encoding="utf-8")
    triples = read_triples(path, KnowledgeGraph.from_triples(num_entities=12, num_relations=1), [])
    assert triples is not None
    assert triples.tolist() == [[11, 0, 10]]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (
            "more.tsv",
            "Ada\tknows\tAda\nAda knows Ada\nBob\tlikes\tNA\n0\t1\tNA\n",
            [
                "more.tsv, line 2: 1 field, expected head<TAB>relation<TAB>tail: 'Ada knows Ada'",
                "more.tsv, line 3: 'Bob' is no known entity, 'likes' is no known relation: 'Bob\\tlikes\\tNA'",
                "more.tsv, line 4: '0' is no known entity, '1' is no known relation: '0\\t1\\tNA'",
            ],
        ),
        (
            "more2id.txt",
            "2\n0 1 2\n3 -1 0\n0 0 0\n",
            [
                "more2id.txt, line 2: '2' is no known relation: '0 1 2'",
                "more2id.txt, line 3: '3' is no known entity, '-1' is no known entity: '3 -1 0'",
                "more2id.txt: the first line says that 2 lines follow, but 3 do",
            ],
        ),
        ("empty.tsv", "", ["empty.tsv: empty"]),
        ("more.parquet", "", ["more.parquet: empty file"]),
    ],
    ids=["labels", "ids", "nothing", "no Parquet"],
)
def test_every_bad_line_is_named(
    graph_triples: KnowledgeGraph, tmp_path: Path, name: str, content: str, expected: list[str]
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    problems: list[str] = []
    assert read_triples(tmp_path / name, graph_triples, problems) is None
    assert problems == expected


def test_bad_ids_in_parquet(graph_triples: KnowledgeGraph, tmp_path: Path) -> None:
    path = tmp_path / "more.parquet"
    pq.write_table(pa.table({"head": [0, 3], "relation": [2, 0], "tail": [-1, 0]}), path)
    problems: list[str] = []
    assert read_triples(path, graph_triples, problems) is None
    assert problems == [
        "more.parquet head: 1 ids outside 0..2 in rows 1 (counted from 0), for example 3",
        "more.parquet relation: 1 ids outside 0..1 in rows 0 (counted from 0), for example 2",
        "more.parquet tail: 1 ids outside 0..2 in rows 0 (counted from 0), for example -1",
    ]


@pytest.mark.parametrize("name", ["more.tsv", "more.parquet", "more2id.txt"])
def test_a_file_that_is_not_there(graph_triples: KnowledgeGraph, tmp_path: Path, name: str) -> None:
    problems: list[str] = []
    assert read_triples(tmp_path / name, graph_triples, problems) is None
    assert len(problems) == 1
    assert name in problems[0]
