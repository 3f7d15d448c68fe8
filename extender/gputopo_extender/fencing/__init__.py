"""Writes claims and Bindings safely when several extenders run (ADR 8)."""
