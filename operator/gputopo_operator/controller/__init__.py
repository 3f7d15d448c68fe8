"""Watches API objects, reads their state, calls a deciding function and writes its result."""
