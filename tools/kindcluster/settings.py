"""Names, addresses and folders of the cluster of kind."""

import os
from collections.abc import Mapping
from pathlib import Path

from localcluster import settings
from localcluster.settings import KIND_STATE_VARIABLE, Paths

CLUSTER = "gputopo"
CONTROL_PLANE = f"{CLUSTER}-control-plane"
CGROUP = "gputopo-kind"
"""The cgroup of all containers of the own Docker daemon."""
INTERFACE = "gputopo-kind"
"""Connects this machine with the network namespace of the own Docker daemon."""
MACHINE_ADDRESS = "10.98.0.1"
DAEMON_ADDRESS = "10.98.0.2"
NETWORK = "10.98.0.0/30"
API_PORT = 6443
LOCKS = Path("/run/lock")

# The image that was published for kind v0.33.0. Another release of kind has other images.
PUBLISHED_IMAGES = {
    "1.36": "kindest/node:v1.36.4"
    "@sha256:099e049362a1526b2db71494e1947aae99bd16290d7c895f2b7ea312e3cbfaed"
}


def paths_from_environment(environment: Mapping[str, str]) -> Paths:
    """Folders by GPUTOPO_CACHE, GPUTOPO_KIND_STATE and XDG_CACHE_HOME, or the defaults."""
    cache = settings.paths_from_environment(environment).cache
    return Paths(cache=cache, state=settings.state_folder(KIND_STATE_VARIABLE, environment))


def current_paths() -> Paths:
    """Folders by this process's environment."""
    return paths_from_environment(os.environ)
