"""JSON in all its shapes, wide tables, semicolons and quoted TSV; what is wrong with them is named by line."""

import json
from pathlib import Path
from typing import Any

import pytest

from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.ranks import Assumption
from kgprobe.ranks.importers import import_ranks

RECORD = {"head": 0, "relation": 0, "tail": 1, "side": "tail", "rank": 2.5, "candidates": 9}


def _problems(path: Path, text: str, **options: Any) -> list[str]:
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        import_ranks(path, **options)
    return caught.value.problems


def test_every_line_that_is_no_record_is_named(tmp_path: Path) -> None:
    lines = [json.dumps(RECORD), "", "{", "[1]", '{"a": 1} x', "3"]
    assert _problems(tmp_path / "a.jsonl", "\n".join(lines)) == [
        "line 3, column 2: this is not JSON (Expecting property name enclosed in double quotes)",
        "line 4: JSON of type list, expected an object",
        "line 5, column 10: this is not JSON (Extra data)",
        "line 6: JSON of type int, expected an object",
    ]
    many = _problems(tmp_path / "b.jsonl", "x\n" * 30)
    assert (len(many), many[-1]) == (21, "10 more lines are no records")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("3", "it holds JSON of type int, expected a list of records or an object of columns"),
        ("[1, 2]", "it holds a list of other values, expected a list of records or an object of columns"),
        ("[[1], 2]", "expected a list of records or an object of columns; is `format` probe-json?"),
        ('{"head": [0], "rank": [1, 2]}', "the columns have different numbers of values: head: 1, rank: 2"),
        ('[{"head": 0},\n {"head" 1}]', "line 2, column 10: this is not JSON"),
        ("[]", "no column for head"),
        ("[" * 100_000, "cannot be read (it is nested too deeply)"),
    ],
)
def test_json_that_is_no_table_is_told(tmp_path: Path, text: str, said: str) -> None:
    assert said in _problems(tmp_path / "a.json", text, format="json")[0]


def test_values_of_mixed_types_are_text_and_missing_keys_null(tmp_path: Path) -> None:
    records = [RECORD | {"kind": 1, "note": "x", "rank": "2.5"}, RECORD | {"head": 3, "kind": "a"}]
    (tmp_path / "a.json").write_text(json.dumps(records))
    ranks = import_ranks(tmp_path / "a.json")
    assert ranks.rank.tolist() == [2.5, 2.5]
    assert ranks.column("kind").to_pylist() == ["1", "a"]
    assert ranks.column("note").to_pylist() == ["x", None]
    assert _problems(tmp_path / "b.json", json.dumps([RECORD | {"rank": True}])) == [
        "rank holds bool, expected numbers"
    ]


WIDE = ("head_rank tail_rank", "rank_head rank_tail", "lhs_rank rhs_rank", "Subject-Rank object_rank", "s_rank o_rank")


@pytest.mark.parametrize("names", WIDE)
def test_a_row_with_the_ranks_of_both_sides_is_two_queries(tmp_path: Path, names: str) -> None:
    columns = ",".join(["h", "r", "t", *names.split(), "num_candidates_head", "tail_n_candidates", "kind"])
    (tmp_path / "a.csv").write_text(f"{columns}\n0,0,1,2,3,7,8,x\n4,0,5,1,6,9,9,y\n")
    ranks = import_ranks(tmp_path / "a.csv")
    assert ranks.column("side").cast("string").to_pylist() == ["head", "tail", "head", "tail"]
    assert (ranks.head.tolist(), ranks.tail.tolist()) == ([0, 0, 4, 4], [1, 1, 5, 5])
    assert (ranks.rank.tolist(), ranks.candidates.tolist()) == ([2, 3, 1, 6], [7, 8, 9, 9])
    assert ranks.column("kind").to_pylist() == ["x", "x", "y", "y"]


def test_wide_columns_can_be_named_and_may_be_of_one_side(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("h,r,t,x\n0,0,1,2\n")
    ranks = import_ranks(tmp_path / "a.csv", columns={"tail_rank": "x"}, num_entities=9, raw=True)
    assert (ranks.rank.tolist(), ranks.predicts_tail.tolist()) == ([2], [True])
    (tmp_path / "b.csv").write_text("h,r,t,side,rank,head_rank\n0,0,1,tail,2,5\n")
    ranks = import_ranks(tmp_path / "b.csv", num_entities=9, raw=True)
    assert (ranks.rank.tolist(), ranks.column("head_rank").to_pylist()) == ([2], [5])


def test_decimal_commas_are_read_where_semicolons_separate(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('h;r;t;side;rank;candidates;"a; b"\n0;0;1;tail;2,5;9;x,1\n1;0;1;tail;3;9;2,5\n')
    ranks = import_ranks(tmp_path / "a.csv")
    assert ranks.rank.tolist() == [2.5, 3]
    assert ranks.column("a; b").to_pylist() == ["x,1", "2,5"]
    assert "decimal commas were read in: rank" in ranks.info.imported.notes


def test_quotation_marks_of_tsv_count_if_the_headings_have_them(tmp_path: Path) -> None:
    people = KnowledgeGraph.from_triples(train=[[0, 0, 1]], entity_labels=["Ada", '"Bob"'], relation_labels=["knows"])
    heading, row = ("h", "r", "t", "side", "rank"), ("Ada", "knows", '"Bob"', "tail", "1")
    (tmp_path / "plain.tsv").write_text("\t".join(heading) + "\n" + "\t".join(row) + "\n")
    quoted = ['"' + text.replace('"', '""') + '"' for text in row]
    (tmp_path / "quoted.tsv").write_text("\t".join(f'"{h}"' for h in heading) + "\n" + "\t".join(quoted) + "\n")
    for name in ("plain.tsv", "quoted.tsv"):
        assert import_ranks(tmp_path / name, graph=people).tail.tolist() == [1]


def test_ranks_that_count_from_0_or_are_ends_of_ties(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("h,r,t,side,rank,equal,candidates\n0,0,1,tail,0,3,9\n")
    ranks = import_ranks(tmp_path / "a.csv", zero_based=True, tie="optimistic")
    assert (ranks.rank.tolist(), ranks.ties.tolist()) == ([2.5], [3])
    assert ranks.info.imported.assumed == (Assumption.optimistic_ranks, Assumption.zero_based)
    (tmp_path / "b.csv").write_text("h,r,t,side,pessimistic_rank,candidates\n0,0,1,tail,4,9\n")
    ranks = import_ranks(tmp_path / "b.csv", tie="pessimistic")
    assert (ranks.rank.tolist(), "ties" in ranks.column_names) == ([4], False)
    assert ranks.info.imported.assumed == (Assumption.pessimistic_ranks,)
    assert any(
        "`tie='pessimistic'` keeps them" in said
        for said in _problems(tmp_path / "b.csv", (tmp_path / "b.csv").read_text())
    )
    with pytest.raises(UsageError, match="unknown `tie` 'best'"):
        import_ranks(tmp_path / "b.csv", tie="best")
    (tmp_path / "c.csv").write_text("h,r,t,side,greater,equal,candidates\n0,0,1,tail,0,3,9\n")
    with pytest.raises(UsageError, match="`zero_based=True` is about ranks"):
        import_ranks(tmp_path / "c.csv", zero_based=True)


def test_inverse_relations_need_no_sides(tmp_path: Path, graph: KnowledgeGraph) -> None:
    head, relation, tail = (int(x) for x in graph.triples("train")[0])
    rows = f"{head},{relation},{tail},1\n{tail},{relation + graph.num_relations},{head},2\n"
    (tmp_path / "a.csv").write_text(f"h,r,t,rank\n{rows}")
    ranks = import_ranks(tmp_path / "a.csv", graph=graph, inverse_relations=True)
    assert (ranks.head.tolist(), ranks.relation.tolist(), ranks.tail.tolist()) == (
        [head] * 2,
        [relation] * 2,
        [tail] * 2,
    )
    assert ranks.predicts_tail.tolist() == [True, False]
    with pytest.raises(UsageError, match="needs the `graph`"):
        import_ranks(tmp_path / "a.csv", num_entities=9, raw=True, inverse_relations=True)
