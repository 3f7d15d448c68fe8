"""The ``gputopo.io/*`` annotations with which the extender records its decision about a pod.

The parsers ignore unknown keys in the JSON values. So a component can read an annotation that a
newer version of gputopo wrote. The user's request is in :mod:`gputopo.api.request`, and what is
known of the workload in :mod:`gputopo.api.known_facts`.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import Field, ValidationError

from gputopo.api.model import ApiModel, Uuid
from gputopo.api.names import GPUS_ANNOTATION, PLACEMENT_ANNOTATION
from gputopo.api.utility import UtilityFigures
from gputopo.errors import InvalidInputError
from gputopo.runtime.messages import first_error

LONGEST_SHARING_REASON: Final = 512


class AnnotationError(InvalidInputError):
    """An annotation has a wrong value; the message names the annotation, value and remedy."""


class JsonAnnotation(ApiModel):
    """Base class of annotations whose value is a JSON object."""

    def dump(self) -> str:
        """Return the compact JSON text of the annotation."""
        return self.model_dump_json(by_alias=True, exclude_none=True)


class GpusAnnotation(JsonAnnotation):
    """``gputopo.io/gpus``: the exact GPUs of each container, in rank order.

    ``uid`` and ``node`` identify the pod for which the extender wrote the annotation. gputopo
    ignores copies of the annotation on other pods. ``request`` has the request of the user at the
    time of the Binding (:mod:`gputopo.api.bound_request`); None if an older extender wrote it.
    """

    v: Literal[1] = 1
    uid: Annotated[str, Field(min_length=1)]
    node: Annotated[str, Field(min_length=1)]
    generation: Annotated[int, Field(ge=0)]
    containers: dict[str, Annotated[list[Uuid], Field(min_length=1)]]
    request: dict[str, str] | None = None


class SharingFigures(ApiModel):
    """``sharing`` of the annotation ``gputopo.io/placement``: the share that the pod got, and why.

    Attributes:
        share: device ID of the share.
        beside: namespaces and names of the pods that shared the GPU already.
        summed_speed_permille: predicted sum of the normalised speeds of all pods on the GPU, in
            thousandths; None if it was unknown, or if the GPU was idle.
        slowdown_percents: predicted slowdown of each pod of ``beside``, then of the pod itself.
        reason: the prediction in words; empty if the GPU was idle.
    """

    share: Uuid
    beside: Annotated[list[str], Field(max_length=64)] = []
    summed_speed_permille: int | None = None
    slowdown_percents: Annotated[list[int], Field(max_length=64)] = []
    reason: Annotated[str, Field(max_length=LONGEST_SHARING_REASON)] = ""


class PlacementAnnotation(JsonAnnotation):
    """``gputopo.io/placement``: why the extender chose the GPUs of a pod, and their bandwidths.

    Attributes:
        policy, pattern: any text, so that a component can parse the names of a newer gputopo.
        sensitive: whether the extender treated the pod as bandwidth-sensitive; ``reason`` is why.
        fact: the slowdown from which the extender derived ``sensitive``, as text. None if the
            extender did not use a GPUProfile.
        pattern_fact: the fact of the GPUProfile from which the extender derived ``pattern``, as
            text. None if the pod declares its pattern, or if nothing is known.
        physical_mb_per_s: effective bandwidth of the chosen GPUs by the physical model.
        physical_worst_mb_per_s, physical_best_mb_per_s: lowest and highest effective bandwidth of
            all GPU sets of this size on the node, by the physical model.
        exact: false if another rank order of the chosen GPUs may have more aggregate bandwidth.
            ``aggregate_bound_mb_per_s`` is then an upper bound for all rank orders, else None.
        utility: utility of the chosen GPUs; None for all policies except Utility.
        sharing: None for pods with whole GPUs.
        replay: what a repetition of the decision needs; :mod:`gputopo.api.replay` parses it. So a
            record in an unknown format does not make the other fields unreadable. None if an older
            version of gputopo placed the pod.
    """

    v: Literal[1] = 1
    policy: str
    pattern: str
    sensitive: bool
    reason: str
    fact: Annotated[str | None, Field(max_length=512)] = None
    pattern_fact: Annotated[str | None, Field(max_length=512)] = None
    model: str | None = None
    effective_mb_per_s: Annotated[int | None, Field(alias="effectiveMBps")] = None
    physical_mb_per_s: Annotated[int | None, Field(alias="physicalMBps")] = None
    physical_worst_mb_per_s: Annotated[int | None, Field(alias="physicalWorstMBps")] = None
    physical_best_mb_per_s: Annotated[int | None, Field(alias="physicalBestMBps")] = None
    aggregate_mb_per_s: Annotated[int, Field(alias="aggregateMBps")]
    preserved_mb_per_s: Annotated[int, Field(alias="preservedMBps")]
    exact: bool = True
    aggregate_bound_mb_per_s: Annotated[int | None, Field(alias="aggregateBoundMBps")] = None
    utility: UtilityFigures | None = None
    sharing: SharingFigures | None = None
    replay: Any = None


_Parsed = TypeVar("_Parsed", bound=JsonAnnotation)


def parse_gpus(annotations: Mapping[str, str]) -> GpusAnnotation | None:
    """Return the value of ``gputopo.io/gpus``, or None if the pod has no such annotation.

    Raises:
        AnnotationError: on a value that cannot be parsed.
    """
    return parse_json(annotations, GPUS_ANNOTATION, GpusAnnotation)


def parse_placement(annotations: Mapping[str, str]) -> PlacementAnnotation | None:
    """Return the value of ``gputopo.io/placement``, or None if the pod has no such annotation.

    Raises:
        AnnotationError: on a value that cannot be parsed.
    """
    return parse_json(annotations, PLACEMENT_ANNOTATION, PlacementAnnotation)


def parse_json(annotations: Mapping[str, str], name: str, model: type[_Parsed]) -> _Parsed | None:
    """Return the value of one JSON annotation, or None if the pod has no such annotation.

    Raises:
        AnnotationError: on a value that cannot be parsed.
    """
    text = annotations.get(name)
    if text is None:
        return None
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        raise AnnotationError(f"{name}: {first_error(error)}") from None
