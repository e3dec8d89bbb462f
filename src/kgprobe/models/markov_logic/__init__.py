"""A Markov logic network: rules with weights, and how likely facts are given all others."""
