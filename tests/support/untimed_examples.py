"""Settings of hypothesis: no deadline, because the machines are shared."""

from hypothesis import HealthCheck, settings

settings.register_profile("gputopo", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gputopo")
