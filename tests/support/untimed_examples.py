"""Settings of hypothesis: no deadline, because the machines are shared; the same inputs each time.

So no change is rejected because of an input that an earlier change could have met. With
``GPUTOPO_RANDOM=1`` or ``GPUTOPO_LONG=1`` the inputs are random; what they find becomes an example.
"""

import os

from hypothesis import HealthCheck, settings

_RANDOM = {"GPUTOPO_LONG", "GPUTOPO_RANDOM"}

settings.register_profile(
    "gputopo",
    deadline=None,
    derandomize=not _RANDOM & os.environ.keys(),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("gputopo")
