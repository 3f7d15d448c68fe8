"""Train a tiny model for 30 optimizer steps with Hugging Face's Trainer, and report the steps."""

import tempfile

import torch
import transformers

from gputopo_steps.transformers import StepsCallback


class Model(torch.nn.Module):
    """One linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the loss of one batch."""
        outputs = self.layer(inputs).squeeze()
        return {"loss": (outputs - labels).square().mean(), "logits": outputs}


def main() -> None:
    """Train; two batches are one optimizer step."""
    data = [{"inputs": torch.randn(8), "labels": 0.0} for _ in range(240)]
    with tempfile.TemporaryDirectory() as folder:
        args = transformers.TrainingArguments(
            output_dir=folder,
            max_steps=30,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=2,
            report_to=[],
            save_strategy="no",
        )
        trainer = transformers.Trainer(
            model=Model(), args=args, train_dataset=data, callbacks=[StepsCallback()]
        )
        trainer.train()


if __name__ == "__main__":
    main()
