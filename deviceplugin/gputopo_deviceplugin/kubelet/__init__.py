"""Connections to kubelet: pod-resources API, registration, generated stubs."""
