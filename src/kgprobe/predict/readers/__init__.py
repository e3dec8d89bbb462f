"""Files that name facts and candidates by the ids or the labels of a graph."""
