"""Lists of the best answers, all that many systems give: a target beyond the end of its list has a rank interval."""

from kgprobe.predict.sources.top_k.lists import TopKLists, Unlisted
from kgprobe.predict.sources.top_k.rank import ListRanks, rank_lists
from kgprobe.predict.sources.top_k.read import open_top_k

__all__ = ["ListRanks", "TopKLists", "Unlisted", "open_top_k", "rank_lists"]
