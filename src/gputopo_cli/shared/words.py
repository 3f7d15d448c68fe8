"""Words, numbers and lists as they stand on the command line, and what they mean.

Words are lower case with dashes (``ring-tree``); those of the API (``RingTree``) mean the same.
"""

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from enum import StrEnum
from typing import Final, TypeVar

from gputopo.patterns.model import PatternKind
from gputopo.placement.model import PolicyName
from gputopo.runtime.messages import quoted
from gputopo.topology.model import GpuIndex, GpuMask, NodeTopology, mask_of
from gputopo_cli.shared.errors import InputError

_MAX_DIGITS: Final = 9


_Item = TypeVar("_Item")
_Word = TypeVar("_Word", bound=StrEnum)


def word(member: StrEnum) -> str:
    """Return the word of the command line for one of the API.

    >>> word(PatternKind.ALL_TO_ALL)
    'all-to-all'
    """
    return re.sub(r"(?<!^)(?=[A-Z])", "-", member.value).lower()


def pattern_kind(text: str) -> PatternKind:
    """Return the pattern of this name.

    Raises:
        InputError: on an unknown one.
    """
    return _one_of(PatternKind, text, "pattern")


def policy_name(text: str) -> PolicyName:
    """Return the policy of this name.

    Raises:
        InputError: on an unknown one.
    """
    return _one_of(PolicyName, text, "policy")


def whole_number(text: str, field: str, least: int = 0, most: int = 10**_MAX_DIGITS - 1) -> int:
    """Return a number of plain digits between two bounds.

    Raises:
        InputError: on anything else.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
        raise InputError(f"{field}: {quoted(text)} is not a whole number of {least}..{most}")
    if not least <= int(text) <= most:
        raise InputError(f"{field}: {text} is not in {least}..{most}")
    return int(text)


def gpu_set(text: str, field: str, topology: NodeTopology) -> GpuMask:
    """Return the GPUs of a list such as ``0,1,4``; an empty text is no GPU.

    Raises:
        InputError: on what is no number, a GPU named twice, or one that the node lacks.
    """
    return mask_of(gpu_list(text, field, topology))


def gpu_list(text: str, field: str, topology: NodeTopology) -> tuple[GpuIndex, ...]:
    """Return the GPUs of a list such as ``2,0,3``, in its order.

    Raises:
        InputError: as of :func:`gpu_set`.
    """
    if not text.strip():
        return ()
    found: list[GpuIndex] = []
    for part in text.split(","):
        index = GpuIndex(whole_number(part.strip(), field))
        if index in found:
            raise InputError(f"{field}: GPU {index} is named twice")
        if not topology.mask >> index & 1:
            there = ", ".join(str(gpu.index) for gpu in topology.gpus)
            raise InputError(f"{field}: {index} is not one of this node's GPUs ({there})")
        found.append(index)
    return tuple(found)


def each_once(text: str, field: str, read: Callable[[str], _Item]) -> tuple[_Item, ...]:
    """Return the items of a list such as ``fifo,srtf``, in its order.

    Raises:
        InputError: on an item named twice, and what ``read`` raises.
    """
    found = tuple(read(part.strip()) for part in text.split(","))
    if len(set(found)) < len(found):
        raise InputError(f"{field}: {quoted(text)} names one twice")
    return found


def nearest(text: str, known: Iterable[str]) -> str:
    """Return a hint such as ``; did you mean 'summit'?``, or nothing.

    >>> nearest("sumit", ["dgx-2", "summit"])
    "; did you mean 'summit'?"
    """
    found = get_close_matches(text.lower(), list(known), n=1, cutoff=0.6)
    return f"; did you mean {found[0]!r}?" if found else ""


def _one_of(words: type[_Word], text: str, field: str) -> _Word:
    known = {word(member): member for member in words}
    plain = {name.replace("-", ""): member for name, member in known.items()}
    member = plain.get(text.lower().replace("-", ""))
    if member is None:
        raise InputError(
            f"{field}: {quoted(text)} is not one of {', '.join(known)}{nearest(text, known)}"
        )
    return member
