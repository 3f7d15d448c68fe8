"""The Kubernetes API of gputopo: names, models of the custom resources, pod annotations.

Functions convert API objects and annotations to the types of the core, and back.
"""
