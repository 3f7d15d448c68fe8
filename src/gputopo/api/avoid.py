"""The annotation ``gputopo.io/avoid``: beside which pods a pod must not run.

Example: ``[{"matchLabels": {"app": "noisy"}, "level": "Socket"}]``
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Final, TypeAlias

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from gputopo.api.annotations import AnnotationError
from gputopo.api.names import AVOID_ANNOTATION
from gputopo.api.v1alpha1 import MAX_AVOID_RULES, AvoidLevel, AvoidSpec
from gputopo.runtime.messages import first_error

Labels: TypeAlias = tuple[tuple[str, str], ...]
"""Labels of a pod: names and values, sorted by name."""

_CACHED_TEXTS: Final = 4096

_LONGEST_TEXT: Final = 32_768
"""All rules with the longest labels have 26,000 characters. Any user can set an annotation of 256
KiB on a running pod, and to parse it would block the extender."""


class _WrittenRule(AvoidSpec):
    """One rule in the annotation, which a user writes: a misspelt key must not be ignored."""

    model_config = ConfigDict(extra="forbid")


_RULES: Final = TypeAdapter(Annotated[list[_WrittenRule], Field(max_length=MAX_AVOID_RULES)])
_KNOWN_RULES: Final = TypeAdapter(Annotated[list[AvoidSpec], Field(max_length=MAX_AVOID_RULES)])


@dataclass(frozen=True, slots=True)
class AvoidRule:
    """The pods that one pod avoids: those that have all of these labels.

    Attributes:
        level: ``Socket``: no GPU of a CPU socket (NUMA node) where such a pod has GPUs; ``Node``:
            no GPU of a node where such a pod has GPUs.
    """

    labels: Labels
    level: AvoidLevel = "Socket"

    def matches(self, labels: Labels) -> bool:
        """Return whether a pod with these labels is one to avoid."""
        return all(label in labels for label in self.labels)


def avoid_rules(specs: Iterable[AvoidSpec]) -> tuple[AvoidRule, ...]:
    """Return the rules of ``GPUJob.spec.placement.avoid``."""
    return tuple(AvoidRule(tuple(sorted(spec.match_labels.items())), spec.level) for spec in specs)


def parse_avoid(annotations: Mapping[str, str]) -> tuple[AvoidRule, ...]:
    """Return the rules of a pod; none if it has no such annotation.

    Raises:
        AnnotationError: on a value that is not allowed.
    """
    text = annotations.get(AVOID_ANNOTATION)
    if text is None:
        return ()
    if len(text) > _LONGEST_TEXT:
        raise AnnotationError(
            f"{AVOID_ANNOTATION}: {len(text)} characters; at most {_LONGEST_TEXT} are allowed"
        )
    return _parse(text)


def known_avoid(annotations: Mapping[str, str]) -> tuple[AvoidRule, ...]:
    """Return the rules of a pod that runs already; none if the annotation cannot be parsed.

    Unknown keys are ignored: a newer version may have placed the pod.
    """
    text = annotations.get(AVOID_ANNOTATION)
    return () if text is None or len(text) > _LONGEST_TEXT else _parse_known(text)


def format_avoid(rules: Iterable[AvoidRule]) -> dict[str, str]:
    """Return the annotation with these rules, none without rules."""
    found = [{"matchLabels": dict(rule.labels), "level": rule.level} for rule in rules]
    return {AVOID_ANNOTATION: json.dumps(found, separators=(",", ":"))} if found else {}


@lru_cache(_CACHED_TEXTS)
def _parse(text: str) -> tuple[AvoidRule, ...]:
    try:
        return avoid_rules(_RULES.validate_json(text))
    except ValidationError as error:
        raise AnnotationError(
            f"{AVOID_ANNOTATION}: {first_error(error)}; allowed is a JSON list of up to "
            f'{MAX_AVOID_RULES} objects such as {{"matchLabels": {{"app": "noisy"}}, "level": '
            '"Socket"}; level is Socket or Node'
        ) from None


@lru_cache(_CACHED_TEXTS)
def _parse_known(text: str) -> tuple[AvoidRule, ...]:
    try:
        return avoid_rules(_KNOWN_RULES.validate_json(text))
    except ValidationError:
        return ()
