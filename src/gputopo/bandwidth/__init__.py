"""What a GPU set gives a job, and what the GPUs left over are still worth."""
