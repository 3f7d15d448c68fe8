"""Runs CUDA MPS on a node: one control daemon for each shared GPU."""
