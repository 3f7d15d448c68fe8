"""The values of the operator's decisions: their input and their results."""
