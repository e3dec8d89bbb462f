"""What is minimised: a loss for each query, from the score of its answer and the scores of others."""
