"""Which of the waiting jobs run on which servers, with how many CPUs and how much memory."""
