"""Churn GPU pods on the local cluster while its parts are killed, and count what went wrong."""
