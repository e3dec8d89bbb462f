"""The explorer: one HTML file that holds the ranks and computes every score itself, offline."""
