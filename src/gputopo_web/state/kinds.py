"""The kinds of objects that the page watches."""

from dataclasses import dataclass
from typing import Final

from gputopo.api.names import GROUP, VERSION
from gputopo_explain.objects import OURS


@dataclass(frozen=True, slots=True)
class WatchedKind:
    """A kind of object.

    Attributes:
        name: plural of the kind.
        prefix: parts of the URL path before the namespace.
        namespaced: whether the objects have a namespace.
        own: whether they belong to gputopo, whose namespace is not that of the jobs.
        needed_for: what the page does not show without it.
        labels: label selector; empty for all objects.
    """

    name: str
    prefix: tuple[str, ...]
    namespaced: bool
    needed_for: str
    labels: str = ""
    own: bool = False

    def path(self, namespace: str | None) -> tuple[str, ...]:
        """Return the path of the list, of one namespace or of all."""
        scope = ("namespaces", namespace) if namespace and self.namespaced else ()
        return (*self.prefix, *scope, self.name)


_CORE: Final = ("api", "v1")
_OWN: Final = ("apis", GROUP, VERSION)

TOPOLOGIES: Final = WatchedKind("gputopologies", _OWN, namespaced=False, needed_for="the map")
PODS: Final = WatchedKind("pods", _CORE, namespaced=True, needed_for="jobs and users of GPUs")
GPU_JOBS: Final = WatchedKind("gpujobs", _OWN, namespaced=True, needed_for="GPUJobs")
PROFILES: Final = WatchedKind("gpuprofiles", _OWN, namespaced=True, needed_for="profiles")
JOBS: Final = WatchedKind("jobs", ("apis", "batch", "v1"), namespaced=True, needed_for="deadlines")
DEPLOYMENTS: Final = WatchedKind(
    "deployments",
    ("apis", "apps", "v1"),
    namespaced=True,
    needed_for="the settings of gputopo",
    labels="=".join(OURS),
    own=True,
)

KINDS: Final = (TOPOLOGIES, PODS, GPU_JOBS, PROFILES, JOBS, DEPLOYMENTS)
