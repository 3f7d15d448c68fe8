"""The scheduler extender. It serves four requests: filter, prioritize, bind and preempt."""
