import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest

import kgprobe
from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph, load_graph
from kgprobe.ranks import read_ranks
from kgprobe.ranks.importers import FORMATS, import_ranks

CONTENT = {
    "probe-json": json.dumps([[[0, 0, 1], "t", 1.0, 0.1, 0.1, 0]]),
    "csv": "h,r,t,side,rank,filtered\n0,0,1,tail,1,0\n",
    "tsv": "h\tr\tt\tside\trank\tfiltered\n0\t0\t1\ttail\t1\t0\n",
    "parquet": "",
    "json": json.dumps([{"h": 0, "r": 0, "t": 1, "side": "tail", "rank": 1, "filtered": 0}]),
    "jsonl": json.dumps({"h": 0, "r": 0, "t": 1, "side": "tail", "rank": 1, "filtered": 0}) + "\n",
}


def _write(path: Path, format: str) -> Path:  # noqa: A002
    if format == "parquet":
        columns = {"h": [0], "r": [0], "t": [1], "side": ["tail"], "rank": [1], "filtered": [0]}
        pq.write_table(pa.table(columns), path)
    else:
        path.write_text(CONTENT[format])
    return path


def test_there_is_a_reader_for_each_format() -> None:
    assert list(FORMATS) == list(CONTENT)


@pytest.mark.parametrize("format", CONTENT)
def test_every_format_is_imported_by_the_public_function(format: str, tmp_path: Path) -> None:  # noqa: A002
    # The format that is given counts, and not the name of the file.
    name = "ranks.csv" if format == "parquet" else "ranks.parquet"
    for ranks in (
        kgprobe.import_ranks(_write(tmp_path / f"ranks.{format.removeprefix('probe-')}", format), num_entities=5),
        kgprobe.import_ranks([_write(tmp_path / name, format)], format, num_entities=5),
    ):
        assert (ranks.head.tolist(), ranks.tail.tolist(), ranks.predicts_tail.tolist()) == ([0], [1], [True])
        assert (ranks.rank.tolist(), ranks.candidates.tolist()) == ([1], [5])
        assert ranks.info.imported.format == format


def test_a_graph_may_be_a_name(tmp_path: Path) -> None:
    graph = load_graph("family-tree")
    ranks = import_ranks(_write(tmp_path / "ranks.csv", "csv"), graph="family-tree")
    assert (ranks.info.graph, ranks.info.graph_hash) == ("family-tree", graph.content_hash)


def test_files_of_different_formats_are_seeds_of_one_table(tmp_path: Path) -> None:
    ranks = import_ranks(
        [_write(tmp_path / "m_1.json", "probe-json"), _write(tmp_path / "m_2.csv", "csv")], num_entities=5
    )
    assert ranks.seed is not None
    assert (ranks.seed.tolist(), ranks.info.imported.format) == ([1, 2], "probe-json, csv")


def test_contradictions_are_all_said_at_once(graph: KnowledgeGraph) -> None:
    with pytest.raises(UsageError) as caught:
        import_ranks(["a.json", "b.json"], "probe-json", graph=graph, num_entities=0, raw=True, split="tests", seed=1)
    assert caught.value.problems == [
        "`raw` does not apply to probe-json",
        "both `graph` and `num_entities` are given: leave out one",
        "`num_entities` is 0, expected at least 1",
        "unknown split 'tests'; nearest: test",
        "one `seed` for 2 files: the seeds of several files come from their names",
    ]


CANONICAL = "head,relation,tail,side,rank,candidates\n0,0,3,tail,1.5,4\n0,0,3,head,2,3\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ranks.csv"


def _rows(path: Path, text: str, **options: Any) -> list[dict[str, Any]]:
    path.write_text(text)
    rows: list[dict[str, Any]] = import_ranks(path, **options).to_arrow().to_pylist()
    return rows


def _problems(path: Path, text: str, **options: Any) -> list[str]:
    with pytest.raises(DataError) as caught:
        _rows(path, text, **options)
    assert caught.value.title == f"{path}: cannot be imported"
    return caught.value.problems


ROWS = [
    {"head": 0, "relation": 0, "tail": 3, "side": "tail", "rank": 1.5, "candidates": 4},
    {"head": 0, "relation": 0, "tail": 3, "side": "head", "rank": 2.0, "candidates": 3},
]


def test_canonical_columns_need_nothing_else(path: Path) -> None:
    assert _rows(path, CANONICAL) == ROWS
    assert _rows(path, CANONICAL.replace(",", "\t"), format="tsv") == ROWS


def test_usual_names_are_found(path: Path) -> None:
    text = CANONICAL.replace(
        "head,relation,tail,side,rank,candidates", "S,predicate,Object,direction,realistic_rank,num_candidates"
    )
    assert _rows(path, text) == ROWS


def test_columns_of_any_name_are_mapped(path: Path) -> None:
    text = CANONICAL.replace("rank", "position").replace("side,", "which,")
    assert _rows(path, text, columns={"rank": "position", "side": "which"}) == ROWS


@pytest.mark.parametrize(("name", "delimiter"), [("r.csv", ","), ("r.tsv", "\t"), ("r.txt", "\t"), ("r.tsv.gz", "\t")])
def test_the_name_says_the_format(tmp_path: Path, name: str, delimiter: str) -> None:
    text = CANONICAL.replace(",", delimiter).encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    assert import_ranks(tmp_path / name).to_arrow().to_pylist() == ROWS


def test_parquet_keeps_ids_labels_and_types(tmp_path: Path) -> None:
    table = pa.table(
        {
            "h": pa.array([0, 0], pa.int32()),
            "r": pa.array([0, 0], pa.uint8()),
            "t": pa.array(["3", "3"]).dictionary_encode(),
            "side": pa.array(["t", "h"]).dictionary_encode(),
            "rank": pa.array([1.5, 2], pa.float32()),
            "candidates": pa.array([4.0, 3.0]),
            "code": ["007", "008"],
        }
    )
    pq.write_table(table, tmp_path / "foreign.parquet")
    rows = import_ranks(tmp_path / "foreign.parquet").to_arrow().to_pylist()
    assert rows == [ROWS[0] | {"code": "007"}, ROWS[1] | {"code": "008"}]


def test_published_ranks_as_labelled_csv_without_candidates_are_the_published_ranks(data: Path, tmp_path: Path) -> None:
    graph = load_graph(data / "graphs" / "umls")
    published = read_ranks(data / "published_ranks" / "umls" / "TuckER.parquet")
    columns = {
        "seed": published.column("seed"),
        "subject": graph.entity_label(published.head),
        "predicate": graph.relation_label(published.relation),
        "object": graph.entity_label(published.tail),
        "side": published.column("side").cast(pa.string()),
        "rank": published.column("rank"),
    }
    arrow_csv.write_csv(pa.table(columns), tmp_path / "umls.csv")
    ranks = import_ranks(tmp_path / "umls.csv", graph=graph)
    for name in ("head", "relation", "tail", "side", "rank", "candidates", "seed"):
        assert ranks.column(name).to_pylist() == published.column(name).to_pylist()
    expected = published.with_popularity(graph.popularity)
    assert ranks.column("relation_popularity").equals(expected.column("relation_popularity"))
    assert ranks.info.filtered == ("train", "valid", "test")
    assert ranks.info.candidates.counted == "entities minus known answers of train, valid, test"


def test_ranks_and_candidates_may_be_said_in_other_ways(path: Path) -> None:
    text = "h,r,t,side,optimistic,pessimistic,filtered\n0,0,3,t,1,2,2\n"
    (row,) = _rows(path, text, num_entities=9)
    assert (row["rank"], row["ties"], row["candidates"]) == (1.5, 1, 7)
    (row,) = _rows(path, "h,r,t,side,greater,equal\n0,0,3,t,4,2\n", num_entities=9, raw=True)
    assert (row["rank"], row["ties"], row["candidates"]) == (6, 2, 9)


def test_columns_without_meaning_are_labels(path: Path) -> None:
    header, *lines = CANONICAL.splitlines()
    text = "\n".join([f"{header},kind,weight,filtered", *(f"{line},easy,0.5,7" for line in lines)])
    assert _rows(path, text) == [row | {"kind": "easy", "weight": 0.5, "filtered": 7} for row in ROWS]


def test_a_column_that_was_not_needed_is_kept_only_if_it_says_otherwise(path: Path) -> None:
    text = "h,r,t,side,candidates,optimistic,pessimistic,rank,ties\n0,0,3,t,9,1,2,{},1\n"
    path.write_text(text.format("1.5"))
    assert import_ranks(path).column_names == ["head", "relation", "tail", "side", "rank", "candidates", "ties"]
    path.write_text(text.format("2"))
    ranks = import_ranks(path)
    assert (ranks.rank.tolist(), ranks.column("source_rank").to_pylist()) == ([1.5], [2])
    assert "column 'rank' differs in 1 rows; kept as 'source_rank'" in ranks.info.imported.notes
    ranks = import_ranks(path, columns={"rank": "rank"})
    assert (ranks.rank.tolist(), ranks.ties.tolist()) == ([2], [1])
    assert ranks.column("optimistic").to_pylist() == [1]


def test_a_mapped_column_sets_its_namesake_aside(path: Path) -> None:
    text = "h,r,t,side,candidates,rank,filtered_rank,source_rank\n0,0,3,t,9,5,2,x\n"
    (row,) = _rows(path, text, columns={"rank": "filtered_rank"})
    assert (row["rank"], row["source_rank"], row["source_source_rank"]) == (2, 5, "x")


def test_a_column_without_a_name_is_left_out_and_noted(path: Path) -> None:
    path.write_text(
        "".join(
            f"{i}{line}\n" for i, line in zip(["", "0", "1"], [f",{x}" for x in CANONICAL.splitlines()], strict=True)
        )
    )
    ranks = import_ranks(path)
    assert ranks.to_arrow().to_pylist() == ROWS
    assert "a column without a name was left out" in ranks.info.imported.notes


def test_popularity_comes_from_the_file_or_better_from_the_graph(path: Path, graph: KnowledgeGraph) -> None:
    header, *lines = CANONICAL.splitlines()
    text = "\n".join([f"{header},entity_popularity,delta_r", f"{lines[0]},0.5,", f"{lines[1]},nan,1"])
    rows = _rows(path, text)
    assert [row["entity_popularity"] for row in rows] == [0.5, None]
    assert [row["relation_popularity"] for row in rows] == [None, 1.0]
    ranks = import_ranks(path, graph=graph)
    assert ranks.numbers("entity_popularity").tolist() == [1 / 8, 2 / 8]
    assert "the popularity of the graph replaces that of the file" in ranks.info.imported.notes


def test_several_files_are_several_seeds_of_one_table(tmp_path: Path) -> None:
    header, first, second = CANONICAL.splitlines()
    (tmp_path / "a_5.csv").write_text(f"{header},x\n{first},1\n{second},2\n")
    (tmp_path / "a_6.tsv").write_text(f"{header},x\n{second},\n{first},odd\n".replace(",", "\t"))
    ranks = import_ranks([tmp_path / "a_5.csv", tmp_path / "a_6.tsv"])
    assert ranks.seed is not None
    assert ranks.seed.tolist() == [5, 5, 6, 6]
    assert ranks.column("x").to_pylist() == ["1", "2", None, "odd"]
    assert ranks.info.imported.format == "csv, tsv"


def test_facts_are_recorded_without_the_place_of_the_file(path: Path, graph: KnowledgeGraph) -> None:
    path.write_text(CANONICAL)
    info = import_ranks(path, graph=graph, model="m", split="test", seed=3).info
    assert (info.model, info.split, info.graph, info.graph_hash) == ("m", "test", "people", graph.content_hash)
    assert info.imported.source == ("ranks.csv",)
    assert str(path.parent) not in str(info)
    assert info.filtered is None


def test_missing_columns_are_all_named_with_what_was_looked_for(path: Path) -> None:
    assert _problems(path, "a,b\n1,2\n") == [
        "no column for head (tried: head, h, subject, subj, s, head_id, head_label)",
        "no column for relation (tried: relation, r, rel, predicate, pred, p, relation_id, relation_label)",
        "no column for tail (tried: tail, t, object, obj, o, tail_id, tail_label)",
        "no column for side (tried: side, predicted, predicted_side, direction, target_side, mode)",
        "no column for rank (tried: rank, mean_rank, realistic_rank, realistic, filtered_rank), "
        "and no optimistic and pessimistic, or greater and equal, or head_rank and tail_rank",
        "the columns found are: a, b",
    ]


def test_a_mapping_to_nothing_is_said_once_with_the_nearest_names(path: Path) -> None:
    text = CANONICAL.replace("rank", "Position").replace("side", "which")
    assert _problems(path, text, columns={"rank": "positoin", "side": "wich"}) == [
        "there is no column 'positoin' to take as rank; nearest: Position",
        "there is no column 'wich' to take as side; nearest: which",
    ]


def test_the_wrong_delimiter_is_suspected(path: Path) -> None:
    assert _problems(path, CANONICAL, format="tsv")[-1] == (
        "the columns found are: head,relation,tail,side,rank,candidates: is `format` correct?"
    )


def test_a_header_alone_has_no_rows(path: Path) -> None:
    assert _problems(path, CANONICAL.splitlines()[0] + "\n") == ["it has no rows"]
    assert _problems(path, "a\n")[-1] == "it has no rows"


def test_bad_lines_and_bad_columns_are_said_at_once(path: Path) -> None:
    problems = _problems(path, "head,relation,tail,side,position,candidates\n0,0,3,tail,1.5\n")
    assert problems[0] == "line 2: 5 fields, expected 6: '0,0,3,tail,1.5'"
    assert problems[1].startswith("no column for rank")


def test_all_bad_values_are_said_at_once(path: Path, graph: KnowledgeGraph) -> None:
    lines = [
        "head,relation,tail,side,rank,ties,seed",
        "Ada,knows,Di,tail,1,0,1",
        "Eve,knows,Di,tail,first,0,1",
        "Ada,knows,Di,up,0,0,1",
        "Ada,knows,Di,tail,nan,none,1",
        "Ada,knows,Di,head,9,0,x",
        "Ada,,Di,head,1,-2,",
    ]
    assert _problems(path, "\n".join(lines), graph=graph) == [
        "head is not a known entity: 'Eve': 1 row (row 2)",
        "the side is 'up', expected one of head, h, s, subject, lhs, head-batch, head_batch, tail, t, o, object, rhs, "
        "tail-batch, tail_batch: 1 row (row 3)",
        "rank is not a number, for example 'first': 1 row (row 2)",
        "ties is not a whole number, for example 'none': 1 row (row 4)",
        "seed is not a whole number, for example 'x': 2 rows (rows 5-6)",
        "relation is missing: 1 row (row 6)",
        "rank is not a number: 1 row (row 4)",
        "rank is below 1: 1 row (row 3)",
        "rank is larger than the number of candidates: 1 row (row 5)",
        "ties is negative: 1 row (row 6)",
        "the same query (and seed) occurs again: 1 row (row 4)",
    ]


def test_what_only_the_user_can_say_is_a_usage_error(path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        _rows(path, "h,r,t,side,rank\nAda,knows,Di,tail,1\n")
    assert [problem.split(",")[0].split(":")[0] for problem in caught.value.problems] == [
        "labels in head and tail",
        "labels in relation",
        "no column for the number of candidates",
    ]
    with pytest.raises(UsageError, match="`num_entities` is 0, expected at least 1"):
        _rows(path, CANONICAL, num_entities=0)


def test_files_that_are_not_what_they_say_are_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.csv")
    (tmp_path / "b.parquet").write_text(CANONICAL)
    with pytest.raises(DataError) as caught:
        import_ranks([tmp_path / "a.csv", tmp_path / "b.parquet"])
    one, two = caught.value.problems
    assert one == "a.csv: it is a Parquet file, expected text"
    assert two.startswith("b.parquet: b.parquet: not a readable Parquet file")


def test_best_and_worst_rank_are_the_ends_of_a_tie_group(path: Path) -> None:
    text = "head,relation,tail,side,best_rank,worst_rank,candidates\n0,0,3,tail,1,2,4\n0,0,3,head,2,2,3\n"
    assert _rows(path, text) == [row | {"ties": ties} for row, ties in zip(ROWS, (1, 0), strict=True)]


def test_rank_and_worst_rank_are_an_interval(path: Path) -> None:
    path.write_text("head,relation,tail,side,rank,worst_rank,candidates\n0,0,3,tail,2,4,4\n0,0,3,head,2,,3\n")
    ranks = import_ranks(path)
    assert ranks.column("worst_rank").to_pylist() == [4, None]
    assert "1 of 2 ranks are intervals, from rank to worst_rank" in ranks.info.imported.notes


def test_a_rank_table_with_intervals_comes_back_from_csv(path: Path) -> None:
    rows = "0,0,3,tail,2,0,4,4\n0,0,3,head,1.5,1,,3\n"
    path.write_text("head,relation,tail,side,rank,ties,worst_rank,candidates\n" + rows)
    ranks = import_ranks(path)
    arrow_csv.write_csv(ranks.to_arrow().set_column(3, "side", ranks.column("side").cast(pa.string())), path)
    assert import_ranks(path).to_arrow().to_pylist() == ranks.to_arrow().to_pylist()


def test_an_interval_that_cannot_be_is_refused(path: Path) -> None:
    text = "head,relation,tail,side,rank,worst_rank,candidates\n0,0,3,tail,2,9,4\n0,0,3,head,2,?,3\n"
    assert _problems(path, text) == [
        "worst_rank is not a number, for example '?': 1 row (row 2)",
        "worst_rank is larger than the number of candidates: 1 row (row 1)",
    ]
