"""The part of the callbacks that imports no training framework."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from gputopo_steps import report


def report_global_step(owner: Any) -> None:  # noqa: ANN401 - the class of any framework
    """Report ``owner.global_step``, the number of optimizer steps. This function never raises."""
    with suppress(Exception):
        report(owner.global_step)


class LightningHook:
    """The hook for the ``Callback`` classes of ``lightning`` and ``pytorch_lightning``."""

    def on_train_batch_end(self, trainer: Any, *_args: Any, **_kwargs: Any) -> None:  # noqa: ANN401
        """Report the trainer's optimizer steps; Lightning calls this after each batch."""
        report_global_step(trainer)
