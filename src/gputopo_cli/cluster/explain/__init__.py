"""Explains a placement: ``gputopo explain``."""
