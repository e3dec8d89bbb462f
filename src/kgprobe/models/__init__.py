"""Models that score facts, trained on the facts of a graph."""
