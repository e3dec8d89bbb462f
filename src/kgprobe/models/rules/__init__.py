"""Logical rules: mining, statistics, grounding and explanations."""
