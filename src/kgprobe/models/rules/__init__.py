"""Logical rules over the relations of a graph: found, counted and read."""
