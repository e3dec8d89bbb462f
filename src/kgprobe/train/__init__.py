"""Training: models learn the facts of a graph, and are kept where they are best from the perspective you need."""
