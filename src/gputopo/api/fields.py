"""Who may write each field of a Kubernetes object that gputopo reads, and when.

The admission policies of the chart enforce this table, the page on security shows it, and the
tests of a hostile user write the worst values into each of its fields. A field of a component is
trusted only because of it: a part that reads a new annotation or label needs a row here.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gputopo.api import names


class Place(StrEnum):
    """Where in an object the field is."""

    ANNOTATION = "annotation"
    LABEL = "label"
    STATUS = "status"


class Writer(StrEnum):
    """Who may write a field. USER is every client that may write the object."""

    USER = "user"
    OPERATOR = "operator"
    EXTENDER = "extender"
    AGENT = "agent"
    ADMINISTRATOR = "administrator"
    KUBERNETES = "Kubernetes"  # kubelet and the controllers of Kubernetes


class Until(StrEnum):
    """How long the writer may change a field of a pod."""

    CREATED = "created"  # only the request that creates the pod sets it
    BINDING = "binding"  # only the Binding of the pod sets it
    BOUND = "bound"  # until the pod has a node
    ENDED = "ended"  # at any time


@dataclass(frozen=True, slots=True)
class Field:
    """One field.

    Attributes:
        kind: plural resource name of the object.
        name: key of the annotation or label; ``status`` for the whole status.
    """

    kind: str
    place: Place
    name: str
    writer: Writer
    until: Until = Until.ENDED


def _pod(name: str, writer: Writer, until: Until = Until.ENDED) -> Field:
    return Field("pods", Place.ANNOTATION, name, writer, until)


def _labels(name: str, *kinds: str) -> tuple[Field, ...]:
    """Return rows of a label with which the operator finds objects of a namespace and owner."""
    return tuple(Field(kind, Place.LABEL, name, Writer.USER) for kind in kinds)


POD_REQUEST: Final = tuple(
    _pod(name, Writer.USER, Until.CREATED if name == names.FACTS_ANNOTATION else Until.BOUND)
    for name in (
        names.PATTERN_ANNOTATION,
        names.EDGES_ANNOTATION,
        names.SENSITIVITY_ANNOTATION,
        names.POLICY_ANNOTATION,
        names.MIN_UTILITY_ANNOTATION,
        names.AVOID_ANNOTATION,
        names.MAX_WAIT_ANNOTATION,
        names.PROFILE_ANNOTATION,
        names.FACTS_ANNOTATION,
        names.SHARING_MEMORY_ANNOTATION,
        names.SHARING_MAX_SLOWDOWN_ANNOTATION,
        names.SHARING_TERMINATION_ANNOTATION,
        names.SHARING_IF_SLOW_ANNOTATION,
    )
)
"""What a pod requests. The values at the time of the Binding hold until the pod ends."""

FIELDS: Final = (
    *POD_REQUEST,
    _pod(names.RESOURCES_MODE_ANNOTATION, Writer.USER, Until.CREATED),
    _pod(names.RESOURCES_MAX_ANNOTATION, Writer.USER, Until.CREATED),
    Field("pods", Place.LABEL, names.TUNED_LABEL, Writer.USER, Until.CREATED),
    # They concern the measurement of the pod itself, which its user may begin and end.
    _pod(names.STEPS_SOURCE_ANNOTATION, Writer.USER),
    _pod(names.STEPS_METRICS_ANNOTATION, Writer.USER),
    _pod(names.PROFILING_ANNOTATION, Writer.USER),
    _pod(names.PROFILING_SECONDS_ANNOTATION, Writer.USER),
    _pod(names.GPUS_ANNOTATION, Writer.EXTENDER, Until.BINDING),
    _pod(names.PLACEMENT_ANNOTATION, Writer.EXTENDER, Until.BINDING),
    _pod(names.POSTPONED_ANNOTATION, Writer.EXTENDER),
    _pod(names.RETRY_ANNOTATION, Writer.EXTENDER),
    _pod(names.INVALIDATED_ANNOTATION, Writer.EXTENDER),
    _pod(names.RESOURCES_ANNOTATION, Writer.OPERATOR),
    _pod(names.PROFILING_STATE_ANNOTATION, Writer.OPERATOR),
    Field("pods", Place.LABEL, names.PROFILING_LABEL, Writer.OPERATOR),
    # Objects with these labels belong to a GPUJob or GPUEnsemble of the same namespace only.
    *_labels(names.JOB_LABEL, "jobs", "pods"),
    *_labels(names.ENSEMBLE_LABEL, "gpujobs", "jobs", "pods", "services"),
    *_labels(names.ENSEMBLE_MEMBER_LABEL, "gpujobs"),
    *_labels(names.ENSEMBLE_PREPROCESSOR_LABEL, "jobs", "pods"),
    *_labels(names.LINK_RUN_LABEL, "jobs", "pods"),
    # A wrong result concerns the GPUProfile of the job's own namespace.
    Field("jobs", Place.ANNOTATION, names.LINK_RESULT_ANNOTATION, Writer.USER),
    Field("gpujobs", Place.ANNOTATION, names.ENSEMBLE_NODE_ANNOTATION, Writer.OPERATOR),
    Field("gpujobs", Place.STATUS, "status", Writer.OPERATOR),
    Field("gpuensembles", Place.STATUS, "status", Writer.OPERATOR),
    Field("gpuprofiles", Place.STATUS, "status", Writer.OPERATOR),
    Field("gputopologies", Place.STATUS, "status", Writer.AGENT),
    Field("leases", Place.ANNOTATION, names.CLAIMS_ANNOTATION, Writer.EXTENDER),
    Field("nodes", Place.ANNOTATION, names.GPUS_RESET_ANNOTATION, Writer.ADMINISTRATOR),
    Field("nodes", Place.STATUS, "status", Writer.KUBERNETES),
    Field("pods", Place.STATUS, "status", Writer.KUBERNETES),
    Field("jobs", Place.STATUS, "status", Writer.KUBERNETES),
)
