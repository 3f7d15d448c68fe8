"""Claims: which GPUs of a node are a pod's, or may become so by a Binding under way.

They are written before the Binding, into one object per node, on the condition that nobody
else has written since they were read. So whoever writes next knows them, be it another
process: see docs/adr/0008-claims-fence-bindings.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gputopo.api.names import CLAIMS_ANNOTATION
from gputopo.api.v1alpha1 import Uuid
from gputopo.topology.model import GpuUuid
from gputopo.wire.extender import ObjectName

_Text = Annotated[str, Field(min_length=1)]


class ClaimsError(ValueError):
    """Claims that cannot be read; the message names the field."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The GPUs of one node that a Binding gives to a pod, and where to ask about that pod."""

    namespace: str
    name: str
    gpus: tuple[GpuUuid, ...]


class _Document(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Pod(_Document):
    namespace: ObjectName
    name: ObjectName
    gpus: Annotated[list[Uuid], Field(min_length=1)]


class _Claims(_Document):
    v: Literal[1] = 1
    pods: dict[_Text, _Pod]


def parse_claims(annotations: Mapping[str, str]) -> dict[str, Claim]:
    """Return the claims on a node, by UID of the pod.

    Raises:
        ClaimsError: where they are missing or cannot be read.
    """
    text = annotations.get(CLAIMS_ANNOTATION)
    if text is None:
        raise ClaimsError(f"annotation {CLAIMS_ANNOTATION}: missing")
    try:
        pods = _Claims.model_validate_json(text).pods
    except ValidationError as error:
        detail = error.errors()[0]
        where = ".".join(str(part) for part in detail["loc"])
        raise ClaimsError(
            f"annotation {CLAIMS_ANNOTATION}: {where or 'value'}: {detail['msg']}"
        ) from None
    return {
        uid: Claim(pod.namespace, pod.name, tuple(map(GpuUuid, pod.gpus)))
        for uid, pod in pods.items()
    }


def format_claims(claims: Mapping[str, Claim]) -> dict[str, str]:
    """Return the annotation that says these claims; the inverse of the parser."""
    pods = {
        uid: _Pod(namespace=claim.namespace, name=claim.name, gpus=list(claim.gpus))
        for uid, claim in claims.items()
    }
    return {CLAIMS_ANNOTATION: _Claims(pods=pods).model_dump_json()}
