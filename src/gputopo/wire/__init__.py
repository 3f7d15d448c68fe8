"""The bodies that kube-scheduler and the extender exchange."""
