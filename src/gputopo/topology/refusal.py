"""What pydantic refuses, said as one line that names the field and its value."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from pydantic import ValidationError

from gputopo.topology.model import TopologyError

_LONGEST_SHOWN: Final = 60


def refused(
    error: ValidationError, *, prefix: str = "", fields: Sequence[str] = ()
) -> TopologyError:
    """Return the error of the first thing refused.

    Args:
        error: what pydantic raised.
        prefix: the field that was validated, if it is not the whole file.
        fields: known top-level fields, for a hint at a misspelt one.
    """
    detail = error.errors(include_url=False)[0]
    field = prefix
    for part in detail["loc"]:
        field += f"[{part}]" if isinstance(part, int) else f".{part}" if field else part
    if detail["type"] == "missing":
        return TopologyError(f"{field}: is required")
    if detail["type"] == "extra_forbidden":
        near = get_close_matches(field, fields, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        return TopologyError(f"{field}: there is no such field{hint}")
    value = repr(detail["input"])
    shown = value if len(value) <= _LONGEST_SHOWN else f"{value[:_LONGEST_SHOWN]}..."
    return TopologyError(f"{field or 'the document'}: {shown}: {detail['msg']}")
