"""Training of RNNLogic: a search for rules, then a predictor that learns to reason with them."""
