"""The reasons why pods wait or were rejected, without figures and names. Pure."""

import re

_FRAME = re.compile(
    r"^UnexpectedAdmissionError Pod was rejected: Allocate failed due to |, which is unexpected$"
    r"|device plugin \w+ rpc failed with err: rpc error: code = \w+ desc = "
    r"|\. (no new claims to deallocate|preemption:).*"
)
_IDENTITY = re.compile(r"GPU-[0-9a-f-]+|\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\b(?:pod|job|burst)-[\w-]+")
_NUMBER = re.compile(r"\b\d+\b")
_LONGEST = 100


def kind_of(why: str) -> str:
    """Return the same text for all pods with the same reason."""
    plain = _NUMBER.sub("N", _IDENTITY.sub("X", _FRAME.sub("", why)))
    return plain[:_LONGEST] or "no reason given"
