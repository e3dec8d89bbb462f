"""The built-in graph ``family-tree``: people who marry and have children, and all facts that follow.

`grow_people` grows the trees, `facts` derives everything that is true of them (`RELATIONS` names it), and
`family_tree` splits that into a graph. Because the whole truth is known, the graph shows what a metric makes
of facts that are true but missing. The process is the one behind the synthetic graph of Yang et al.,
"Rethinking Knowledge Graph Evaluation Under the Open-World Assumption" (NeurIPS 2022), and the default sizes
are those of that graph.
"""

from kgprobe.graph.family_tree.build import family_tree
from kgprobe.graph.family_tree.kinship import RELATIONS, facts
from kgprobe.graph.family_tree.people import MAX_CHILDREN, MAX_DEPTH, People, grow_people

__all__ = ["MAX_CHILDREN", "MAX_DEPTH", "RELATIONS", "People", "facts", "family_tree", "grow_people"]
