"""What can be ranked besides a scorer in memory: files and the models of other libraries."""
