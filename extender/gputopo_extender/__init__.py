"""The scheduler extender: kube-scheduler's calls filter, prioritize, bind and preempt."""
