"""Measures the training steps of the containers with GPUs: rates, and samples for profiles."""
