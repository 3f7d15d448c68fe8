"""Defines a claim: the GPUs that a Binding in flight may give to a pod.

An extender writes a claim to the Lease before it sends the Binding. The write fails if another
extender has written the Lease after this extender read it. So the next writer knows all earlier
claims (docs/adr/0008-claims-fence-bindings.md). The ledger treats claimed GPUs as used. The command
line reads the claims too, so that it counts the same GPUs as used.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gputopo.api.annotations import GpusAnnotation
from gputopo.api.names import CLAIMS_ANNOTATION, GPUS_ANNOTATION
from gputopo.api.shares import is_share
from gputopo.errors import InvalidInputError
from gputopo.runtime.messages import first_error
from gputopo.topology.model import GpuMask, GpuUuid
from gputopo_cluster.occupants import Occupant
from gputopo_cluster.topologies import GpuNode, known_mask
from gputopo_kube.document import ObjectKey, ObjectName
from gputopo_kube.gpu_containers import GpuContainer
from gputopo_kube.pods import PodView

CLAIMS_LEASE: Final = "gputopo-claims"
"""Name of the Lease with the claims, in the namespace of the extenders."""

_Text = Annotated[str, Field(min_length=1)]
_Uuid = Annotated[GpuUuid, Field(min_length=1, max_length=63)]


class ClaimsError(InvalidInputError):
    """The claims in the Lease are missing or invalid; the message names the field."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The GPUs of one node that a Binding may give to a pod.

    Attributes:
        version: the Binding succeeds only if the pod has this resource version. Two extenders
            never claim one pod at the same version. So each new claim changes the Lease, and the
            other extender notices the change.
        gpus: UUIDs in rank order, or the device IDs of shares.
    """

    uid: _Text
    namespace: ObjectName
    name: ObjectName
    version: Annotated[str, Field(pattern=r"^[0-9]{1,19}$")]
    node: ObjectName
    gpus: Annotated[tuple[_Uuid, ...], Field(min_length=1)]

    @property
    def pod(self) -> ObjectKey:
        """Namespace and name of the pod."""
        return ObjectKey(self.namespace, self.name)


class _Claims(BaseModel):
    """The value of the annotation that stores the claims in the Lease."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    v: Literal[1] = 1
    pods: tuple[Claim, ...]


def parse_claims(annotations: Mapping[str, str]) -> tuple[Claim, ...]:
    """Return the claims in the annotations of the Lease.

    Raises:
        ClaimsError: if the annotation is missing or cannot be parsed.
    """
    text = annotations.get(CLAIMS_ANNOTATION)
    if text is None:
        raise ClaimsError(f"annotation {CLAIMS_ANNOTATION}: missing")
    try:
        return _Claims.model_validate_json(text).pods
    except ValidationError as error:
        raise ClaimsError(f"annotation {CLAIMS_ANNOTATION}: {first_error(error)}") from None


def format_claims(claims: Iterable[Claim]) -> dict[str, str]:
    """Return the annotation of the Lease with these claims; the inverse of ``parse_claims``."""
    return {CLAIMS_ANNOTATION: _Claims(pods=tuple(claims)).model_dump_json()}


def claimants(
    claims: Iterable[Claim], node: GpuNode, pods: Mapping[str, PodView]
) -> list[Occupant]:
    """Return the pods that have claims on the node, with the claimed GPUs.

    ``pods`` has the known pods by UID.
    """
    found: dict[str, Occupant] = {}
    for claim in claims:
        if claim.node == node.node:
            # Claims name GPUs by UUID, because indexes change when another GPU is removed.
            gpus = known_mask(node.topology, claim.gpus)
            shares = frozenset(filter(is_share, claim.gpus))
            if claim.uid in found:
                gpus = GpuMask(found[claim.uid].gpus | gpus)
                shares |= found[claim.uid].shares
            found[claim.uid] = Occupant(
                claim.uid, claim.pod, gpus, pod=pods.get(claim.uid), shares=shares
            )
    return [*found.values()]


def claimed_pod(claim: Claim) -> PodView:
    """Build the view of a deleted pod from its claim: the pod had the claimed GPUs and ended."""
    gpus = GpusAnnotation(
        uid=claim.uid, node=claim.node, generation=0, containers={"": list(claim.gpus)}
    )
    return PodView(
        uid=claim.uid,
        key=claim.pod,
        version=int(claim.version),
        node=claim.node,
        phase="Failed",
        containers=(GpuContainer("", len(claim.gpus), shared=any(map(is_share, claim.gpus))),),
        annotations={GPUS_ANNOTATION: gpus.dump()},
    )
