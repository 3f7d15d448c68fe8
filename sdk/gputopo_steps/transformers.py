"""Callback for Hugging Face transformers: ``Trainer(..., callbacks=[StepsCallback()])``."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from gputopo_steps.callbacks import report_global_step


class StepsCallback(TrainerCallback):
    """Reports the optimizer steps of a ``transformers.Trainer``."""

    def on_step_end(self, args: Any, state: Any, control: Any, **_kwargs: Any) -> None:  # noqa: ANN401, ARG002
        """Report the trainer's optimizer steps; the trainer calls this after each of them."""
        report_global_step(state)
