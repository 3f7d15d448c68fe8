"""Read GPUProfiles, and the counters of the nodes, from a cluster."""

from dataclasses import dataclass

from pydantic import ValidationError

from gputopo.api.names import GROUP, VERSION
from gputopo.api.profile import GPUProfile
from gputopo.runtime.messages import first_error, quoted
from gputopo_cli.profile.counters import NodeCounters
from gputopo_cli.shared.connection import connect
from gputopo_cli.shared.errors import InputError
from gputopo_cluster.topologies import parse_counters
from gputopo_kube.document import Document, ObjectKey
from gputopo_kube.errors import NotFoundError, RejectedError

PLURAL = "gpuprofiles"


@dataclass(frozen=True, slots=True)
class NamedProfile:
    """A GPUProfile with its name."""

    key: ObjectKey
    profile: GPUProfile


def read_profiles(context: str | None, namespace: str | None = None) -> list[NamedProfile]:
    """Return the profiles of a namespace, or of all namespaces, ordered by name.

    Raises:
        InputError: if the cluster cannot be read, or has no gputopo.
    """
    scope = () if namespace is None else ("namespaces", namespace)
    with connect(context) as cluster:
        try:
            documents = cluster.list("apis", GROUP, VERSION, *scope, PLURAL)
        except NotFoundError as error:
            raise InputError(f"cluster: gputopo is not installed: {error.message}") from None
    return sorted((_parse(document) for document in documents), key=lambda each: each.key)


def read_counters(context: str | None) -> list[NodeCounters] | None:
    """Return the counters of all nodes with GPUs; None if the user may not read GPUTopologies.

    Raises:
        InputError: if the cluster cannot be read.
    """
    with connect(context) as cluster:
        try:
            documents = cluster.list("apis", GROUP, VERSION, "gputopologies")
        except RejectedError:
            return None
    found = (NodeCounters(each["metadata"]["name"], parse_counters(each)) for each in documents)
    return sorted(found, key=lambda each: each.node)


def find_profile(name: str, found: list[NamedProfile]) -> NamedProfile:
    """Return the profile with the name ``NAMESPACE/NAME`` or ``NAME``.

    Raises:
        InputError: if no profile, or more than one profile, has this name.
    """
    matching = [each for each in found if name in {str(each.key), each.key.name}]
    if not matching:
        raise InputError(
            f"workload: {quoted(name)} is not the name of a GPUProfile; see `gputopo profile list`"
        )
    if len(matching) > 1:
        names = ", ".join(str(each.key) for each in matching)
        raise InputError(f"workload: {quoted(name)} is not unique; use one of {names}")
    return matching[0]


def _parse(document: Document) -> NamedProfile:
    key = ObjectKey.of(document)
    try:
        return NamedProfile(key, GPUProfile.model_validate(document))
    except ValidationError as error:
        raise InputError(f"GPUProfile {key}: {first_error(error)}") from None
