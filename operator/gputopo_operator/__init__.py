"""The operator: runs each GPUJob as a batch/v1 Job and writes its status."""
