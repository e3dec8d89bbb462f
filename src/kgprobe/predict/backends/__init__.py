"""Backends: where scores are computed. The ranks are the same with each."""
