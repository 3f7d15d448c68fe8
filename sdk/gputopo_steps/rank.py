"""Decides whether a process reports its steps. In a distributed job, only rank 0 does."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

OVERRIDE: Final = "GPUTOPO_STEPS_RANK_VARIABLES"
RANK_VARIABLES: Final = ("RANK", "LOCAL_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")
_ABOVE_ZERO: Final = re.compile(r"0*[1-9][0-9]*")  # -1 and no number: not a distributed program


def is_reporting_rank(environ: Mapping[str, str], modules: Mapping[str, Any]) -> bool:
    """Return whether this process has rank 0 or no rank.

    Args:
        environ: the environment variables. If ``GPUTOPO_STEPS_RANK_VARIABLES`` is set, it lists
            variables, separated by commas. Then the rank is read only from these variables.
        modules: the imported modules. If that variable is not set, the rank is also read from
            ``torch.distributed``, because ``torch.multiprocessing`` sets no variable.
    """
    override = environ.get(OVERRIDE)
    if override is not None:
        return not _any_above_zero(environ, override.split(","))
    return not _any_above_zero(environ, RANK_VARIABLES) and _torch_rank(modules) == 0


def _any_above_zero(environ: Mapping[str, str], names: list[str] | tuple[str, ...]) -> bool:
    return any(_ABOVE_ZERO.fullmatch(environ.get(name.strip(), "").strip()) for name in names)


def _torch_rank(modules: Mapping[str, Any]) -> int:
    with contextlib.suppress(Exception):  # not imported, or only in part so far
        distributed = modules["torch.distributed"]
        if distributed.is_available() and distributed.is_initialized():
            return int(distributed.get_rank())
    return 0
