"""The annotations of a pod that waits for a better placement."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import Field, ValidationError

from gputopo.api.annotations import AnnotationError, JsonAnnotation
from gputopo.api.model import AnnotationTime, ApiModel
from gputopo.api.names import MAX_WAIT_ANNOTATION, POSTPONED_ANNOTATION
from gputopo.runtime.messages import quoted

MAX_WAIT_SECONDS: Final = 7 * 86_400
"""The longest wait that the API allows: one week."""

Permille = Annotated[int, Field(ge=0, le=1000)]


class WaitEnd(ApiModel):
    """``end`` of the annotation ``gputopo.io/postponed``: how a wait ended.

    Attributes:
        expired: whether the longest wait was over before the value was reached.
        permille: value of the placement that the pod got.
    """

    seconds: Annotated[int, Field(ge=0)]
    permille: Permille
    expired: bool


class PostponedAnnotation(JsonAnnotation):
    """``gputopo.io/postponed``: what a pod waits for. The extender writes it when the wait begins.

    Attributes:
        uid: UID of the pod. gputopo ignores copies of the annotation on other pods.
        value: what is compared, for example ``utility``; any text, so that a component can parse
            the values of a newer gputopo.
        since: when the extender first postponed the pod.
        until: when the longest wait ends.
        minimum_permille: the value that the pod requests, in per mille of an ideal placement.
        now_permille: value of the best placement when the wait began.
        then_permille: value of the best placement on idle GPUs when the wait began.
        end: None while the pod waits.
    """

    v: Literal[1] = 1
    uid: Annotated[str, Field(min_length=1)]
    value: Annotated[str, Field(max_length=32)]
    since: AnnotationTime
    until: AnnotationTime
    minimum_permille: Permille
    now_permille: Permille
    then_permille: Permille
    end: WaitEnd | None = None

    def wait_text(self) -> str:
        """Return what the pod waits for, in words.

        Example: ``waiting for utility 0.7: 0.45 at first, 1 on idle GPUs; until
        2026-01-01T12:30:00Z at most``
        """
        target = min(self.minimum_permille, self.then_permille)
        return (
            f"waiting for {self.value} {as_fraction(target)}: {as_fraction(self.now_permille)} "
            f"at first, {as_fraction(self.then_permille)} on idle GPUs; until {self.until} at most"
        )

    def end_text(self) -> str:
        """Return how the wait ended, in words; empty while the pod waits.

        Example: ``waited 37 s for utility 0.7: got 0.91 instead of 0.45``
        """
        if self.end is None:
            return ""
        target = min(self.minimum_permille, self.then_permille)
        waited = f"waited {self.end.seconds} s for {self.value} {as_fraction(target)}"
        got = f"got {as_fraction(self.end.permille)} instead of {as_fraction(self.now_permille)}"
        return f"{waited}: {got}" + ("; the longest wait is over" if self.end.expired else "")

    def ended(self, end: WaitEnd) -> Self:
        """Return the annotation with the end of the wait."""
        return self.model_copy(update={"end": end})


def as_fraction(permille: int) -> str:
    """Return a value in per mille as a number from 0 to 1.

    >>> as_fraction(455), as_fraction(1000)
    ('0.455', '1')
    """
    return f"{permille / 1000:g}"


def parse_max_wait(annotations: Mapping[str, str]) -> int | None:
    """Return for how many seconds a pod waits at most; None if it has no such annotation.

    Raises:
        AnnotationError: on a value that is not allowed.
    """
    text = annotations.get(MAX_WAIT_ANNOTATION)
    if text is None:
        return None
    digits = text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_WAIT_SECONDS))
    if not digits or int(text) > MAX_WAIT_SECONDS:
        raise AnnotationError(
            f"{MAX_WAIT_ANNOTATION}: {quoted(text)} is not a whole number of seconds from 0 to "
            f"{MAX_WAIT_SECONDS}"
        )
    return int(text)


def format_max_wait(seconds: int | None) -> dict[str, str]:
    """Return the annotation with the longest wait; the inverse of :func:`parse_max_wait`."""
    return {} if seconds is None else {MAX_WAIT_ANNOTATION: str(seconds)}


def parse_postponed(annotations: Mapping[str, str], uid: str) -> PostponedAnnotation | None:
    """Return what the pod waits or waited for; None if it was not postponed.

    A value that cannot be parsed or belongs to another pod is ignored: it only has figures for
    people.
    """
    try:
        found = PostponedAnnotation.model_validate_json(annotations[POSTPONED_ANNOTATION])
    except (KeyError, ValidationError):
        return None
    return found if found.uid == uid else None
