"""Writes claims on GPUs and Bindings of pods safely when several extenders run (ADR 8)."""
