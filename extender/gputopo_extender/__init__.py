"""The scheduler extender: filter, prioritize and bind."""
