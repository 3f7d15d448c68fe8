"""Takes the schedulers' Lease from a leader whose extender is failing."""
