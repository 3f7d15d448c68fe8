"""Which GPUs of a node a job gets, and which node suits it best."""
