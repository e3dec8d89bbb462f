"""Clustered bootstrap: metrics on clusters drawn anew, all metrics and models from the same draws."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kgprobe.compare.family import Family, Replicates
from kgprobe.compare.kept import parted, side_by_side
from kgprobe.compare.resampling import Watch, gathered, resampled

_KEPT_CELLS = 1 << 26


def bootstrap(
    families: Sequence[Family], *, replicates: int, seed: int = 0, watch: Watch | None = None
) -> Iterator[Replicates]:
    """The replicates of every family, one after the other.

    Args:
        families: Metrics of models, all on the same clusters.
        replicates: How many times clusters are drawn anew.
        seed: Makes the draws repeatable.
        watch: Is told how many replicates have been made since it was last told.

    Example:
        >>> from kgprobe.compare.estimator import estimator
        >>> from kgprobe.compare.family import family
        >>> from kgprobe.compare.lineup import line_up
        >>> from kgprobe.metrics import parse
        >>> from kgprobe.ranks import Ranks
        >>> ranks = Ranks.from_columns(
        ...     head=[0, 1], relation=[0, 0], tail=[1, 2], side=["tail"] * 2, rank=[1, 2], candidates=[9, 9]
        ... )
        >>> lineup = line_up({"mine": ranks})
        >>> mrr = family([estimator(lineup, "mine", parse("MRR"), clusters=lineup.clusters())])
        >>> (made,) = bootstrap([mrr], replicates=1000)
        >>> import numpy as np
        >>> np.unique(made.values).tolist()
        [0.5, 0.75, 1.0]
    """
    kinds = [family.kept for family in families]
    at_once = max(1, _KEPT_CELLS // (replicates * max((kind.width for kind in kinds), default=1)))
    for start in range(0, len(families), at_once):
        batch, own = families[start : start + at_once], kinds[start : start + at_once]
        clusters = batch[0].clusters
        told = watch if start == 0 else None
        keep = side_by_side(own, clusters)
        kept = gathered(resampled, keep, clusters=clusters, total=replicates, seed=seed, watch=told)
        yield from (family.finish(part) for family, part in zip(batch, parted(kept, own), strict=True))
