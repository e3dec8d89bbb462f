import json
from pathlib import Path


def test_demo_writes_rank_files_that_evaluate(kgprobe, tmp_path: Path) -> None:
    done = kgprobe("demo", "-o", tmp_path)
    assert done.code == 0
    assert "family-tree" in done.out
    files = sorted(tmp_path.glob("*.parquet"))
    assert [file.stem for file in files] == ["entity-frequency", "relation-frequency"]
    assert kgprobe("check", *files, "--graph", "family-tree").code == 0
    rows = json.loads(kgprobe("eval", *files, "-m", "MRR", "-f", "json").out)
    by_model = {row["model"]: row["value"] for row in rows}
    assert by_model["relation frequency"] > by_model["entity frequency"] > 0
    assert f"{by_model['relation frequency']:.4f}" in done.out
