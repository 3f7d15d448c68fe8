"""The part of the callbacks that needs no training framework."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from gputopo_steps import report


def report_global_step(owner: Any) -> None:  # noqa: ANN401 - the class of any framework
    """Report ``owner.global_step``, the optimizer steps; errors do not leave this function."""
    with suppress(Exception):
        report(owner.global_step)


class LightningHook:
    """The hook of a Lightning callback, for both packages that have Lightning's ``Callback``."""

    def on_train_batch_end(self, trainer: Any, *_args: Any, **_kwargs: Any) -> None:  # noqa: ANN401
        """Report the trainer's count, which does not change while gradients accumulate."""
        report_global_step(trainer)
