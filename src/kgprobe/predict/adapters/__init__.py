"""Adapters: models and files of other libraries as scorers."""
