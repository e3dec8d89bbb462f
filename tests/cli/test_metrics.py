import json

from kgprobe.metrics import METRICS, parse


def test_all_metrics_are_listed_as_they_are_written(kgprobe) -> None:
    rows = json.loads(kgprobe("metrics", "-f", "json").out)
    assert len(rows) == len(METRICS)
    assert [type(parse(row["metric"])) for row in rows] == list(METRICS)
    assert all(row["reference"] and row["meaning"] and row["range"] for row in rows)


def test_some_metrics_only(kgprobe) -> None:
    (row,) = json.loads(kgprobe("metrics", "mean rank", "-f", "json").out)
    assert (row["metric"], row["better"], row["range"]) == ("MR", "lower", "[1, inf)")
