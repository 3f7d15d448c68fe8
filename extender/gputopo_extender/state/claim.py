"""Claims: which GPUs pods may get by Bindings that are under way.

They are written before the Binding, into one object, on the condition that nobody else has
written since they were read. So whoever writes next knows them, be it another process: see
docs/adr/0008-claims-fence-bindings.md.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gputopo.api.names import CLAIMS_ANNOTATION
from gputopo.api.v1alpha1 import Uuid
from gputopo.errors import InvalidInputError
from gputopo.runtime.messages import first_error
from gputopo.topology.model import GpuUuid
from gputopo_extender.protocol import ObjectName

_Text = Annotated[str, Field(min_length=1)]
_Version = Annotated[str, Field(pattern=r"^[0-9]{1,19}$")]


class ClaimsError(InvalidInputError):
    """Claims that cannot be read; the message names the field."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The GPUs of one node that a Binding may give to a pod, and where to ask about that pod.

    Attributes:
        version: of the pod, on which the Binding depends. ClaimFence that are equal are so by one
            and the same Binding: the API server keeps the version of an object that is written
            as it was, so a write of equal claims would not be noticed by others.
    """

    uid: str
    namespace: str
    name: str
    version: str
    node: str
    gpus: tuple[GpuUuid, ...]


class _Document(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Pod(_Document):
    uid: _Text
    namespace: ObjectName
    name: ObjectName
    version: _Version
    node: ObjectName
    gpus: Annotated[list[Uuid], Field(min_length=1)]


class _Claims(_Document):
    v: Literal[1] = 1
    pods: list[_Pod]


def parse_claims(annotations: Mapping[str, str]) -> tuple[Claim, ...]:
    """Return the claims that were written last.

    Raises:
        ClaimsError: where they are missing or cannot be read.
    """
    text = annotations.get(CLAIMS_ANNOTATION)
    if text is None:
        raise ClaimsError(f"annotation {CLAIMS_ANNOTATION}: missing")
    try:
        pods = _Claims.model_validate_json(text).pods
    except ValidationError as error:
        raise ClaimsError(f"annotation {CLAIMS_ANNOTATION}: {first_error(error)}") from None
    return tuple(
        Claim(
            pod.uid, pod.namespace, pod.name, pod.version, pod.node, tuple(map(GpuUuid, pod.gpus))
        )
        for pod in pods
    )


def format_claims(claims: Iterable[Claim]) -> dict[str, str]:
    """Return the annotation that says these claims; the inverse of the parser."""
    pods = [
        _Pod(
            uid=claim.uid,
            namespace=claim.namespace,
            name=claim.name,
            version=claim.version,
            node=claim.node,
            gpus=list(claim.gpus),
        )
        for claim in claims
    ]
    return {CLAIMS_ANNOTATION: _Claims(pods=pods).model_dump_json()}
