"""Ranking by blocks: queries against ranges of entities, counted one by one, kept in a directory, merged at the end."""
