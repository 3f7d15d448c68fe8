"""Pure functions that decide which writes GPUJobs, GPUProfiles and measured pods need."""
