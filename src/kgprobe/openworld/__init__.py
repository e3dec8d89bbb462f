"""The open world: what missing facts do to a score, and what the score would be without them."""
