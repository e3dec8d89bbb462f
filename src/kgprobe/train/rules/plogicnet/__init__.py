"""pLogicNet in training: rules are weighed, TransE learns what follows from them, and so on."""

from kgprobe.train.rules.plogicnet.learner import PLogicNetLearner, open_run

__all__ = ["PLogicNetLearner", "open_run"]
