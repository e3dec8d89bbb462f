"""Trainable models of knowledge graph completion: embedding models and rule-based models."""
