"""How a job's speed depends on what it gets: links between its GPUs, CPUs, memory."""
