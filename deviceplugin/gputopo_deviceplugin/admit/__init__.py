"""Decides which GPUs a container gets, and which GPUs the agent offers to kubelet."""
