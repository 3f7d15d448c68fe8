"""A small training job: ``python jobs.py KIND``. Needs PyTorch and torchvision.

It prepares its model, replies ``{"ready": true}`` to the command ``open``, and to the command
``train`` with the number of steps in a time:

    {"command": "train", "lead": 1.0, "seconds": 3.0, "tail": 0.5}

Steps before ``lead`` and in ``tail`` do not count, so that jobs that are started at the same time
are counted only while all of them train.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable

import torch
import torchvision
from torch import nn

Step = Callable[[], None]
_BATCHES = {
    "resnet18-32": 32,
    "resnet18-256": 256,
    "resnet50-64": 64,
    "transformer-8": 8,
    "mlp-128": 128,
}


def build(kind: str) -> Step:
    """Return a function that runs one training step of a kind of job."""
    batch = _BATCHES[kind]
    if kind.startswith("resnet18"):
        return _images(torchvision.models.resnet18(num_classes=10), batch, 32)
    if kind.startswith("resnet50"):
        return _images(torchvision.models.resnet50(), batch, 224)
    if kind.startswith("transformer"):
        return _transformer(batch)
    layers = [nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)]
    return _classifier(nn.Sequential(*layers), torch.randn(batch, 784, device="cuda"), 10)


def _images(model: nn.Module, batch: int, size: int) -> Step:
    return _classifier(model, torch.randn(batch, 3, size, size, device="cuda"), 10)


def _classifier(model: nn.Module, data: torch.Tensor, classes: int) -> Step:
    model = model.cuda()
    labels = torch.randint(classes, (len(data),), device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss_of(model(data), labels).backward()
        optimizer.step()

    return step


def _transformer(batch: int) -> Step:
    layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
    model = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).cuda()
    data = torch.randn(batch, 128, 512, device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(data).pow(2).mean().backward()
        optimizer.step()

    return step


def train(step: Step, lead: float, seconds: float, tail: float) -> dict[str, float]:
    """Train for ``lead + seconds + tail``; return the steps in ``seconds``, and this time."""
    _steps(step, lead)
    counted, took = _steps(step, seconds)
    _steps(step, tail)
    return {"steps": counted, "seconds": took}


def _steps(step: Step, seconds: float) -> tuple[int, float]:
    began, count = time.monotonic(), 0
    while (passed := time.monotonic() - began) < seconds:
        step()
        torch.cuda.synchronize()
        count += 1
    return count, passed


def main() -> None:
    """Obey commands until the end of the input."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("kind", choices=sorted(_BATCHES))
    step = build(parser.parse_args().kind)
    for _ in range(10):
        step()
    torch.cuda.synchronize()
    for line in sys.stdin:
        request = json.loads(line)
        trains = request.pop("command") == "train"
        print(json.dumps(train(step, **request) if trains else {"ready": True}), flush=True)


if __name__ == "__main__":
    main()
