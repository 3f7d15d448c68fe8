"""How the GPUs of a job talk to each other, and the best way to lay that on a GPU set."""
