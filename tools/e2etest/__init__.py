"""The end-to-end tests on one or more versions of Kubernetes."""
