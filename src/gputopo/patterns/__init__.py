"""Communication patterns of jobs, and their best embedding into the GPU sets of a node."""
