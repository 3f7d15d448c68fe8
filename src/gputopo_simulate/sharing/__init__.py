"""The simulator of shared GPUs: jobs of one GPU, with measured speeds of pairs as the truth."""
