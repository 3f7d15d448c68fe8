"""Decisions for kubelet: which GPUs a container gets, and which GPUs are offered."""
