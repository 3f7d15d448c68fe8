"""Parse words, numbers and lists of the command line.

Words are lower case with dashes (``ring-tree``). The API's form (``RingTree``) is accepted too.
"""

import re
from collections.abc import Callable, Collection
from difflib import get_close_matches
from enum import StrEnum
from functools import partial
from typing import Final, TypeVar

from gputopo.patterns.model import PatternKind
from gputopo.placement.model import PolicyName
from gputopo.runtime.messages import quoted
from gputopo.topology.model import GpuIndex, NodeTopology
from gputopo_cli.shared.errors import InputError

MAX_INTEGER: Final = 999_999_999

_Item = TypeVar("_Item")
_Member = TypeVar("_Member", bound=StrEnum)


def to_word(member: StrEnum) -> str:
    """Return the command line's word for a value of the API.

    >>> to_word(PatternKind.ALL_TO_ALL)
    'all-to-all'
    """
    return re.sub(r"(?<!^)(?=[A-Z])", "-", member.value).lower()


def parse_pattern(text: str) -> PatternKind:
    """Return the pattern of this name."""
    return _parse_member(PatternKind, text, "pattern")


def parse_policy(text: str) -> PolicyName:
    """Return the policy of this name."""
    return _parse_member(PolicyName, text, "policy")


def _parse_member(members: type[_Member], text: str, field: str) -> _Member:
    by_word = {to_word(member): member for member in members}
    words = {word.replace("-", ""): word for word in by_word}
    word = words.get(text.lower().replace("-", ""), text)
    return by_word[parse_choice(word, field, by_word)]


def parse_choice(text: str, field: str, words: Collection[str]) -> str:
    """Return ``text`` if it is one of ``words``, else raise ``InputError``."""
    if text not in words:
        raise InputError(
            f"{field}: {quoted(text)} is not one of {', '.join(words)}{suggest(text, words)}"
        )
    return text


def suggest(text: str, known: Collection[str]) -> str:
    """Return a hint for a misspelt word, or an empty text.

    >>> suggest("sumit", ["dgx-2", "summit"])
    "; did you mean 'summit'?"
    """
    found = get_close_matches(text.lower(), known, n=1, cutoff=0.6)
    return f"; did you mean {found[0]!r}?" if found else ""


def parse_integer(text: str, field: str, least: int = 0, most: int = MAX_INTEGER) -> int:
    """Parse an integer from ``least`` to ``most`` that is written in digits only."""
    plain = text.isascii() and text.isdigit() and len(text) <= len(str(MAX_INTEGER))
    if not (plain and least <= int(text) <= most):
        raise InputError(f"{field}: {quoted(text)} is not an integer in {least}..{most}")
    return int(text)


def parse_gpus(text: str, field: str, topology: NodeTopology) -> tuple[GpuIndex, ...]:
    """Return the GPUs of a list such as ``2,0,3``, in this order. An empty text gives no GPUs."""
    if not text.strip():
        return ()
    found: list[GpuIndex] = []
    for part in text.split(","):
        index = GpuIndex(parse_integer(part.strip(), field))
        if index in found:
            raise InputError(f"{field}: GPU {index} is listed twice")
        if not topology.mask >> index & 1:
            known = ", ".join(str(gpu.index) for gpu in topology.gpus)
            raise InputError(f"{field}: {index} is not one of this node's GPUs ({known})")
        found.append(index)
    return tuple(found)


def parse_words(text: str, field: str, words: Collection[str]) -> tuple[str, ...]:
    """Return the words of a list such as ``fifo,srtf``, each of them one of ``words``."""
    return parse_list(text, field, partial(parse_choice, field=field, words=words))


def parse_percentages(text: str, field: str) -> tuple[int, int, int]:
    """Return three percentages such as ``20,70,10``, whose sum is 100."""
    parts = [parse_integer(part.strip(), field, 0, 100) for part in text.split(",")]
    match parts:
        case [first, second, third] if sum(parts) == 100:  # noqa: PLR2004 - per cent
            return first, second, third
    raise InputError(f"{field}: {quoted(text)} is not three percentages with the sum 100")


def reject_generator_options(**given: object) -> None:
    """Reject options of ``--generate`` that were given with listed jobs; None means not given."""
    for field, value in given.items():
        if value is not None:
            raise InputError(f"{field.replace('_', '-')}: is for --generate only")


def parse_list(text: str, field: str, parse: Callable[[str], _Item]) -> tuple[_Item, ...]:
    """Return the items of a list such as ``fifo,srtf``, in this order. Reject repeated items."""
    found = tuple(parse(part.strip()) for part in text.split(","))
    if len(set(found)) < len(found):
        raise InputError(f"{field}: {quoted(text)} lists an item twice")
    return found
