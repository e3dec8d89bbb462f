"""Readers of graph directories, one file for each format."""
