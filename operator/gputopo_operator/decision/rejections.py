"""Decides whether the API server would reject the same object again."""

from http import HTTPStatus
from typing import Final

_INVALID: Final = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
    }
)
_ADMISSION: Final = ("ValidatingAdmissionPolicy", "admission webhook")


def is_permanent(status: int | None, message: str) -> bool:
    """Return whether a rejected object stays invalid until its owner changes it.

    A policy or webhook can change at any time. A policy without ``reason`` returns 422, and a
    webhook without a code returns 400, as for an invalid object, so only the message differs.

    >>> is_permanent(422, "ValidatingAdmissionPolicy 'team' with binding 'team' denied request: no")
    False
    >>> is_permanent(422, "spec.template.spec.containers[0].image: Required value")
    True
    """
    return status in _INVALID and not any(name in message for name in _ADMISSION)
