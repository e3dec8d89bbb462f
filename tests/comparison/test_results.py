from kgprobe.comparison.lineup import line_up
from kgprobe.comparison.results import remarks
from kgprobe.metrics import parse_all
from kgprobe.ranks import Ranks


def test_queries_that_metrics_leave_out_are_remarked_on() -> None:
    def ranks(*candidates: int) -> Ranks:
        size = len(candidates)
        return Ranks.from_columns(
            head=range(size), relation=[0] * size, tail=[9] * size, side=["tail"] * size, rank=[1] * size,
            candidates=candidates,
        )  # fmt: skip

    lineup = line_up({"one": ranks(1, 5, 20), "other": ranks(1, 5, 20)})
    assert remarks(lineup, "fixed", parse_all("MRR, AMRI, PROBE, AHits@10, ZHits@10, AHits@30")) == [
        "Candidate-size-aware metrics leave out 1 query with a single candidate.",
        "AHits@10, ZHits@10 leave out 2 queries with at most 10 candidates.",
        "AHits@30 leave out 3 queries with at most 30 candidates.",
    ]
