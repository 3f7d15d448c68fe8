"""The what-if form: where would a pod with this request be placed now?"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self, TypeVar

from gputopo.api.names import PROFILE_ANNOTATION
from gputopo.api.request import RequestAnnotations, format_request
from gputopo.api.shares import share_resource
from gputopo.errors import InvalidInputError
from gputopo.patterns.declared import DeclaredPattern
from gputopo.patterns.model import MAX_GPUS_PER_POD, PatternKind
from gputopo.placement.model import PolicyName
from gputopo.runtime.messages import quoted
from gputopo.sensitivity.resolve import Sensitivity
from gputopo_explain.objects import Installation
from gputopo_explain.templates import pod_of
from gputopo_kube.document import Document, ObjectKey

PATTERNS: Final = tuple(kind for kind in PatternKind if kind is not PatternKind.CUSTOM)

_Member = TypeVar("_Member", bound=StrEnum)


class FormError(InvalidInputError):
    """A field of the form has a wrong value; the message names the field."""


@dataclass(frozen=True, slots=True)
class WhatIfForm:
    """The fields of the form.

    Attributes:
        policy: None for the default of the installation.
        node: consider only this node; None for all.
        after_end: assume that this pod has ended; None for no pod.
        without_node: assume that this node does not exist; None for all nodes.
        share: whether the pod shares its GPU with others.
        profile: GPUProfile of the pod's workload; None for an unknown workload.
    """

    gpus: int
    pattern: PatternKind = PatternKind.RING
    sensitivity: Sensitivity = Sensitivity.AUTO
    policy: PolicyName | None = None
    node: str | None = None
    after_end: ObjectKey | None = None
    without_node: str | None = None
    share: bool = False
    profile: ObjectKey | None = None

    @classmethod
    def parse(cls, parameters: Mapping[str, str]) -> Self:
        """Return the form in the parameters of a URL.

        Raises:
            FormError: if a value is not valid.
        """
        given = {name: text.strip() for name, text in parameters.items()}
        policy, share = given.get("policy", ""), bool(given.get("share"))
        gpus = _gpus(given.get("gpus", ""))
        if share and gpus != 1:
            raise FormError(f"gpus: {gpus} is not allowed with share; must be 1")
        return cls(
            gpus=gpus,
            share=share,
            profile=_pod(given.get("profile", "")),
            pattern=_member(PatternKind, PATTERNS, "pattern", given.get("pattern") or "Ring"),
            sensitivity=_member(
                Sensitivity, tuple(Sensitivity), "sensitivity", given.get("sensitivity") or "Auto"
            ),
            policy=_member(PolicyName, tuple(PolicyName), "policy", policy) if policy else None,
            node=given.get("node") or None,
            after_end=_pod(given.get("after_end", "")),
            without_node=given.get("without_node") or None,
        )

    def pod(self, settings: Installation) -> Document:
        """Return the pod of the form."""
        request = RequestAnnotations(
            pattern=DeclaredPattern(self.pattern.value),
            sensitivity=self.sensitivity,
            policy=self.policy,
        )
        resource = share_resource(settings.resource) if self.share else settings.resource
        amounts = {resource: str(self.gpus)}
        annotations = format_request(request)
        metadata: Document = {"name": "new-pod", "annotations": annotations}
        if self.profile is not None:
            metadata["namespace"] = self.profile.namespace
            annotations[PROFILE_ANNOTATION] = self.profile.name
        container = {"name": "main", "resources": {"requests": amounts, "limits": amounts}}
        return pod_of(
            {
                "kind": "Pod",
                "metadata": metadata,
                "spec": {"schedulerName": settings.scheduler_name, "containers": [container]},
            }
        )


def _gpus(text: str) -> int:
    number = int(text) if text.isascii() and text.isdecimal() and len(text) <= 3 else 0  # noqa: PLR2004
    if 1 <= number <= MAX_GPUS_PER_POD:
        return number
    raise FormError(f"gpus: {quoted(text)} is not a number from 1 to {MAX_GPUS_PER_POD}")


def _member(members: type[_Member], allowed: tuple[_Member, ...], field: str, text: str) -> _Member:
    if text in allowed:
        return members(text)
    raise FormError(f"{field}: {quoted(text)} is not one of {', '.join(allowed)}")


def _pod(text: str) -> ObjectKey | None:
    if not text:
        return None
    namespace, _, name = text.rpartition("/")
    return ObjectKey(namespace or "default", name)
