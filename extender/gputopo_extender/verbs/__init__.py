"""The verbs of the extender: filter, prioritize, bind and preempt."""
