"""Callback for the package ``pytorch_lightning``: ``Trainer(callbacks=[StepsCallback()])``."""

from pytorch_lightning import Callback

from gputopo_steps.callbacks import LightningHook


class StepsCallback(LightningHook, Callback):
    """Reports the optimizer steps of a ``pytorch_lightning.Trainer``."""
