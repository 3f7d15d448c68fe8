"""Samples of a workload, as agents publish them."""

from typing import Any

from gputopo.api.profile import Sample

BEST, WORST = 48_000, 12_000


def sample(number: int = 0, **fields: Any) -> Sample:
    """Return a sample of two GPUs on the best links; ``number`` makes it unique."""
    return Sample.model_validate(
        {
            "podUID": f"u{number}",
            "container": "main",
            "time": f"2026-11-22T10:{number // 60 % 60:02}:{number % 60:02}Z",
            "seconds": 60,
            "source": "SDK",
            "microStepsPerSecond": 10_000_000,
            "ciPermille": 20,
            "gpuModel": "Tesla V100-SXM2-32GB",
            "gpus": 2,
            "imageDigest": "sha256:1",
            "model": "physical",
            "pattern": "Ring",
            "effectiveMBps": BEST,
            "bestMBps": BEST,
            "worstMBps": WORST,
        }
        | fields
    )
