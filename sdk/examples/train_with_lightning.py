"""Train a tiny model for 30 optimizer steps with PyTorch Lightning, and report the steps."""

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

from gputopo_steps.lightning import StepsCallback


class Model(lightning.LightningModule):
    """One linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch: list[torch.Tensor], _index: int) -> torch.Tensor:
        """Return the loss of one batch."""
        return self.layer(batch[0]).square().mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer whose steps are counted."""
        return torch.optim.SGD(self.parameters(), lr=0.01)


def main() -> None:
    """Train; two batches are one optimizer step."""
    data = TensorDataset(torch.randn(240, 8))
    trainer = lightning.Trainer(
        max_steps=30, accumulate_grad_batches=2, logger=False, callbacks=[StepsCallback()]
    )
    trainer.fit(Model(), DataLoader(data, batch_size=4))


if __name__ == "__main__":
    main()
