"""Simulates ensembles: FLEET's flotillas beside simple ways to share GPUs among members."""
