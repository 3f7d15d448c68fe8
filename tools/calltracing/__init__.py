"""Follows calls between gputopo's modules while a program runs."""
