"""The Kubernetes API as all components use it: objects as values, errors, requests, watches."""
