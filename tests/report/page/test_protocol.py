import numpy as np

import kgprobe as kp
from kgprobe.compare import line_up
from kgprobe.ranks.schema import RanksInfo, package_version
from kgprobe.report.page.protocol import protocol, remarks
from pages import made_up
from support import with_columns


def test_a_file_that_says_nothing_of_itself_says_so() -> None:
    (table,) = made_up(models=1).values()
    said = dict(protocol([table.with_info(kgprobe="")]))
    assert {key for key, text in said.items() if text == "not recorded"} == {
        "graph",
        "graph hash",
        "split",
        "filtered by",
        "filter hash",
        "ranked with",
    }


def test_what_a_file_says_is_shown_with_its_settings_and_seeds() -> None:
    info = RanksInfo(
        graph="umls", graph_hash="abc", split="test", filtered=(), filter_hash="def", settings={"p": 2, "a": "<b>"}
    )
    run = kp.Ranks.from_columns(
        head=[0, 0],
        relation=[0, 0],
        tail=[1, 1],
        side=["head", "tail"],
        rank=[1.5, 2],
        ties=[1, 0],
        candidates=[9, 9],
        info=info,
    )
    both = kp.merge_seeds({4: run, 7: run})
    said = protocol(line_up({"mine": both}).runs["mine"])
    assert said == [
        ("graph", "umls"),
        ("graph hash", "abc"),
        ("split", "test"),
        ("filtered by", "nothing"),
        ("filter hash", "def"),
        ("ranked with", f"kgprobe {package_version()}"),
        ("a", "<b>"),
        ("p", "2"),
        ("seeds", "4, 7"),
        ("queries", "2"),
        ("candidates", "9"),
        ("ties", "the mean rank of the tie group counts; 50.00% of the ranks are tied"),
    ]


def test_a_popularity_that_is_always_0_is_not_called_missing() -> None:
    tables = made_up(rows=10)
    tables["model 1"] = with_columns(tables["model 1"], relation_popularity=np.zeros(10))
    assert remarks(line_up(tables), weighted=False) == [
        "The relation popularity of all targets is recorded as 0 for model 1, so queries cannot be weighed by it."
    ]


def test_nothing_is_remarked_where_all_is_well() -> None:
    assert remarks(line_up(made_up()), weighted=True) == []
