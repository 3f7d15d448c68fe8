"""Serves the page over HTTP."""
