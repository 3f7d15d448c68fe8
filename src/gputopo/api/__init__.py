"""The Kubernetes API of gputopo: names, models of the custom resources, pod annotations.

It converts objects and annotations to values of the domain packages and back.
"""
