import json
from pathlib import Path

import kgprobe as kp
from kgprobe.cli.demo import TARGETS
from runs import begin


def test_demo_trains_models_selects_by_two_perspectives_and_compares(kgprobe, tmp_path: Path) -> None:
    begin(tmp_path / "complex").close()  # a demo that was stopped, or done before, is no reason to refuse another
    done = kgprobe("demo", "-o", tmp_path, "--trees", 2, "--threads", 1)
    assert done.code == 0, done.err
    graph, runs = tmp_path / "family-tree", [tmp_path / "complex", tmp_path / "tucker"]
    files = [tmp_path / "relation-frequency.parquet", *(run / "ranks.parquet" for run in runs)]
    assert kgprobe("check", *files, "--graph", graph).code == 0
    frequency, *trained = [kp.evaluate(kp.read_ranks(file), "MRR")["MRR"] for file in files]
    assert min(trained) > 10 * frequency > 0
    for shown in ("family-tree", "selected by", "MRR by side", "MRR by relation", f"{trained[0]:.4f}"):
        assert shown in done.out
    for run in runs:
        result = json.loads((run / "result.json").read_text(encoding="utf-8"))
        assert list(result["targets"]) == TARGETS
        assert "settings: configs/" + run.name in done.err
    page = Path(done.out.splitlines()[-1])
    assert page == tmp_path / "report.html"
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    again = tmp_path / "again.parquet"
    assert kgprobe("rank", runs[0], "--graph", graph, "-o", again, "--threads", 1).code == 0
    assert kp.evaluate(kp.read_ranks(again), "MRR")["MRR"] == trained[0]
    assert f"kgprobe train tucker --graph {graph}" in done.err
