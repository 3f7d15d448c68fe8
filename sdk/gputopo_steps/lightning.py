"""Callback for the package ``lightning``: ``Trainer(callbacks=[StepsCallback()])``."""

from lightning.pytorch import Callback

from gputopo_steps.callbacks import LightningHook


class StepsCallback(LightningHook, Callback):
    """Reports the optimizer steps of a ``lightning.pytorch.Trainer``."""
