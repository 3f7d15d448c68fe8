"""Lets a standby scheduler take the leader's Lease if the leader's extender is failing."""
