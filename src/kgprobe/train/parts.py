"""The parts of a training that its settings name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

from kgprobe.graph import KnowledgeGraph
from kgprobe.train.losses.base import LabelLoss, TargetLoss
from kgprobe.train.losses.plain import (
    BinaryCrossEntropy,
    CrossEntropy,
    LabelBinaryCrossEntropy,
    LabelCrossEntropy,
    SelfAdversarial,
)
from kgprobe.train.losses.soft_probe import SoftProbe, query_weights
from kgprobe.train.objectives import KVsAll, NegativeSampling, Objective, OneVsAll
from kgprobe.train.queries import Columns, Weigh, alike, rarity
from kgprobe.train.settings import Settings

_TARGET_LOSSES: Mapping[str, Callable[[Settings], TargetLoss]] = {
    "self_adversarial": lambda settings: SelfAdversarial(settings.adversarial_temperature),
    "cross_entropy": lambda settings: CrossEntropy(settings.label_smoothing),
    "binary_cross_entropy": lambda settings: BinaryCrossEntropy(settings.label_smoothing),
    "soft_probe": lambda settings: SoftProbe(settings.loss_alpha, settings.loss_temperature),
}
_LABEL_LOSSES: Mapping[str, Callable[[Settings], LabelLoss]] = {
    "cross_entropy": lambda settings: LabelCrossEntropy(settings.label_smoothing),
    "binary_cross_entropy": lambda settings: LabelBinaryCrossEntropy(settings.label_smoothing),
}
_OBJECTIVES: Mapping[str, Callable[[Settings, KnowledgeGraph], Objective]] = {
    "negative_sampling": lambda settings, graph: NegativeSampling(
        _TARGET_LOSSES[settings.loss](settings), settings.negatives, graph.num_entities
    ),
    "one_vs_all": lambda settings, graph: OneVsAll(_TARGET_LOSSES[settings.loss](settings)),
    "k_vs_all": lambda settings, graph: KVsAll(_LABEL_LOSSES[settings.loss](settings)),
}


def objective_of(settings: Settings, graph: KnowledgeGraph) -> Objective:
    """What a step makes of its queries."""
    return _OBJECTIVES[settings.objective](settings, graph)


def weigh_of(settings: Settings, graph: KnowledgeGraph) -> Weigh:
    """How much queries count: less where they are frequent, more where their answers are unpopular, as is asked."""
    plain = rarity if settings.subsampling else alike
    if settings.loss != "soft_probe" or settings.loss_beta == 0:
        return plain

    def weigh(columns: Columns) -> NDArray[Any]:
        _, relation, target = columns
        unpopular = query_weights(graph.popularity, relation, target, settings.loss_beta)
        weights: NDArray[Any] = plain(columns) * unpopular
        return weights

    return weigh
