"""RNNLogic in training: a search for rules, then a predictor that learns to reason with them."""

from kgprobe.train.rules.rnnlogic.learner import RNNLogicLearner, open_run

__all__ = ["RNNLogicLearner", "open_run"]
