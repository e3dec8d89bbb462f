"""Learners of the models that reason by rules."""
