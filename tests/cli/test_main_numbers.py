"""Numbers that no computation can use are refused: one screen, exit code 2, no traceback."""

from pathlib import Path

import pytest

LONG, LONGER = "9" * 400, "9" * 5000  # Python itself refuses to convert whole numbers of over 4,300 digits
REFUSED = {
    "cut-off of 20 digits": ["eval", "RANKS", "-m", "Hits@99999999999999999999"],
    "cut-off of 400 digits": ["eval", "RANKS", "-m", f"Hits@{LONG}"],
    "cut-off of 5,000 digits": ["eval", "RANKS", "-m", f"Hits@{LONGER}"],
    "cut-off without @": ["eval", "RANKS", "-m", f"Hits{LONG}"],
    "adjusted cut-off": ["eval", "RANKS", "-m", f"AHits@{LONG}"],
    "z-scored cut-off": ["eval", "RANKS", "-m", f"ZHits@{LONG}"],
    "stratified cut-off": ["eval", "RANKS", "-m", f"StratHits@{LONG}"],
    "infinite beta": ["eval", "RANKS", "-m", "PROBE(beta=1e400)"],
    "bands of 20 digits": ["eval", "RANKS", "--by", "rank:99999999999999999999"],
    "bands of 10 digits": ["eval", "RANKS", "--by", "rank:9999999999"],
    "bands of 5,000 digits": ["eval", "RANKS", "--by", f"rank:{LONGER}"],
    "no bands": ["eval", "RANKS", "--by", "rank:0"],
    "bands of compare": ["compare", "RANKS", "--by", "rank:99999999999999999999"],
    "memory of 400 digits": ["rank", "random", "--graph", "GRAPH", "-o", "OUT", "--memory", LONG],
    "memory of 400 digits in GB": ["rank", "random", "--graph", "GRAPH", "-o", "OUT", "--memory", f"{LONG}GB"],
    "global memory of 400 digits": ["--memory", LONG, "eval", "RANKS"],
    "no global memory": ["--memory", "much", "eval", "RANKS"],
    "draws": ["compare", "RANKS", "--replicates", LONG],
    "negative draws": ["compare", "RANKS", "--replicates", "-1"],
    "permutations": ["compare", "RANKS", "--permutations", "1" + "0" * 30],
    "draws of a decision": ["decide", "RANKS", "--beta", "0", "--replicates", LONG],
    "draws of a report": ["report", "RANKS", "-o", "OUT.html", "--replicates", LONG],
    "draws of an estimate": ["openworld", "estimate", "RANKS", "--missing", "0.1", "--entities", "4", "--draws", LONG],
    "entities": ["openworld", "estimate", "RANKS", "--missing", "0.1", "--entities", LONG, "--draws", "4"],
    "level": ["compare", "RANKS", "--level", "nan"],
    "infinite level": ["decide", "RANKS", "--beta", "0", "--level", "inf"],
    "axis": ["surface", "RANKS", "--alpha", f"0:{LONG}:1"],
    "axis without an end": ["surface", "RANKS", "--alpha", "0:inf:1"],
    "negative seed": ["compare", "RANKS", "--seed", "-1"],
    "seed of 31 digits": ["import", "csv", "FILE", "--graph", "GRAPH", "-o", "OUT", "--seed", "1" + "0" * 30],
    "threads": ["rank", "random", "--graph", "GRAPH", "-o", "OUT", "--threads", "-1"],
    "shards": ["rank", "random", "--graph", "GRAPH", "-o", "OUT", "--shards", "0"],
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_number_that_no_computation_can_use(kgprobe, ranks_file: Path, graph_dir: Path, tmp_path: Path, case) -> None:
    places = {"RANKS": ranks_file, "GRAPH": graph_dir, "OUT": tmp_path / "out", "OUT.html": tmp_path / "out.html"}
    places["FILE"] = tmp_path / "ranks.csv"
    (tmp_path / "ranks.csv").write_text("head,relation,tail,side,rank,candidates\n0,0,2,head,1,3\n")
    done = kgprobe(*(places.get(word, word) for word in REFUSED[case]))
    assert (done.code, done.out) == (2, "")
    assert "Traceback" not in done.err
    assert len(done.err) < 2000
    assert not (tmp_path / "out").exists()


def test_large_numbers_that_make_sense(kgprobe, ranks_file: Path) -> None:
    done = kgprobe("--memory", "1TB", "eval", ranks_file, "-m", f"Hits@{2**53}", "--by", "rank:1000000")
    assert done.code == 0, done.err


def test_the_global_memory_raises_the_limit(kgprobe, ranks_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kgprobe import resources

    monkeypatch.setattr(resources, "_allowed", 0)
    usual = resources.unpacking_limit()
    assert kgprobe("--memory", str(usual + 1), "eval", ranks_file, "-m", "MRR").code == 0
    assert resources.unpacking_limit() == usual + 1


def test_the_memory_of_a_ranking_raises_the_limit(
    kgprobe, graph_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kgprobe import resources

    monkeypatch.setattr(resources, "_allowed", 0)
    usual = resources.unpacking_limit()
    size = ["--memory", str(usual + 1)]
    assert kgprobe("rank", "random", "--graph", graph_dir, "-o", tmp_path / "a.parquet", *size).code == 0
    assert resources.unpacking_limit() == usual + 1
