"""Binds pods so that several running extenders never give one GPU to two pods (ADR 8)."""
