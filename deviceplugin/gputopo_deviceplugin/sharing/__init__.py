"""Shares of GPUs: which the agent offers, and the MPS daemons that serve the sharing pods."""
