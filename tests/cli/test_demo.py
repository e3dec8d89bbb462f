import json
from pathlib import Path


def test_demo_ranks_models_and_writes_rank_files_that_evaluate(kgprobe, tmp_path: Path) -> None:
    done = kgprobe("demo", "-o", tmp_path)
    assert done.code == 0
    files = sorted(tmp_path.glob("*.parquet"))
    assert [file.stem for file in files] == ["CP", "RESCAL", "relation-frequency"]
    assert kgprobe("check", *files, "--graph", tmp_path / "graph").code == 0
    rows = json.loads(kgprobe("eval", *files, "-m", "MRR", "-f", "json").out)
    by_model = {row["model"]: row["value"] for row in rows}
    assert min(by_model["RESCAL"], by_model["CP"]) > 10 * by_model["relation frequency"] > 0
    for shown in ("family-tree", "MRR by side", "MRR by relation", f"{by_model['RESCAL']:.4f}"):
        assert shown in done.out
    page = Path(done.out.splitlines()[-1])
    assert page == tmp_path / "report.html"
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    again = tmp_path / "again.parquet"
    assert (
        kgprobe("rank", tmp_path / "CP.safetensors", "--graph", tmp_path / "graph", "-o", again, "--threads", 1).code
        == 0
    )
    assert json.loads(kgprobe("eval", again, "-m", "MRR", "-f", "json").out)[0]["value"] == by_model["CP"]
