"""A training job whose speed depends on its links, its CPUs, or both.

The law of the job is the JSON text in the environment variable LAW:

    {"seed": 1, "noise": 0.05, "seconds": 0.05, "megabytes": 600,
     "links": {"GPU-a GPU-b": 25000}, "workers": 4, "images": 16}

``seconds`` is the time of a step on the GPUs alone. With ``overhead``, the GPUs share the work of a
step: ``m`` GPUs need ``seconds * (1 + overhead * (m - 1)) / m``. ``megabytes`` pass around the ring
of GPUs in every step, at the bandwidth of its slowest link (``links``: MB/s of a pair, in CUDA's
order). With ``workers`` above 0, that many processes decode JPEG images, and a step needs
``images`` of them; a step starts when its images are decoded and the previous step has ended, as in
a training loop that prefetches. ``noise`` is the relative standard deviation of a step's time.

``neighbours`` slows the job down while other jobs are on its sockets; see ``neighbours.py``.
``traffic`` is what the counters of the simulated driver show of the job; see ``traffic.py``.

If the container shares a GPU, the job is a client of the simulated MPS, as CUDA would be. An error
of the client ends the job.

The job ends after ``steps`` steps. With ``log`` it also logs each step, and with ``port`` it serves
the number of steps as a Prometheus metric at this port.
"""

import atexit
import io
import json
import multiprocessing
import os
import random
import signal
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

import gputopo_steps
from fakemps.client import Client
from neighbours import Neighbours
from traffic import write_rates

if TYPE_CHECKING:
    from multiprocessing.queues import Queue

_SIDE = 224
_JPEG_QUALITY = 90
_PREFETCHED = 4


class MetricsHandler(BaseHTTPRequestHandler):
    """Serves the number of steps.

    Attributes:
        steps: since the start.
        neighbours: what runs on the same sockets, if the law needs it.
    """

    steps = 0
    neighbours: Neighbours | None = None

    def do_GET(self) -> None:
        """Respond with the metric."""
        text = f"# TYPE training_steps_total counter\ntraining_steps_total {self.steps}\n"
        text += self.neighbours.metrics() if self.neighbours else ""
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def main() -> None:
    """Train until SIGTERM, or for the number of steps in the law."""
    law = json.loads(os.environ["LAW"])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    rng = random.Random(law["seed"])  # noqa: S311 - repeatable on purpose
    workers = law.get("workers", 0)
    decoded = start_workers(workers, law.get("images", 1))
    neighbours = MetricsHandler.neighbours = find_neighbours(law)
    show_traffic(law)
    if "port" in law:
        server = HTTPServer(("", law["port"]), MetricsHandler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    client = Client() if "CUDA_MPS_PIPE_DIRECTORY" in os.environ else None
    gpu_seconds = work_seconds(law) + communication_seconds(law)
    print(f"seconds of a step without noise: {gpu_seconds}", flush=True)
    for step in range(law.get("steps", sys.maxsize)):
        for _ in range(workers):
            decoded.get()
        slowdown = neighbours.slowdown_now() if neighbours else 1.0
        time.sleep(max(0.0, slowdown * gpu_seconds * rng.gauss(1, law["noise"])))
        if client is not None:
            client.synchronize()
        gputopo_steps.step()
        MetricsHandler.steps = step + 1
        if law.get("log"):
            print(f"gputopo-steps {step + 1}", flush=True)


def find_neighbours(law: dict[str, Any]) -> Neighbours | None:
    """Return the jobs beside this one, None if the law does not depend on them."""
    if "neighbours" not in law:
        return None
    device_files = [file.name for file in Path("/dev").iterdir()]
    found = Neighbours(law["neighbours"], socket.gethostname(), device_files)
    atexit.register(found.remove)
    return found


def show_traffic(law: dict[str, Any]) -> None:
    """Let the counters of the node's simulated driver count what the law says, until the end."""
    if "traffic" not in law:
        return
    device_files = [file.name for file in Path("/dev").iterdir()]
    file = write_rates(law["traffic"], socket.gethostname(), visible_gpus(), device_files)
    atexit.register(file.unlink, missing_ok=True)


def visible_gpus() -> list[str]:
    """Return the UUIDs of the GPUs of the container, in rank order."""
    return [uuid for uuid in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if uuid]


def work_seconds(law: dict[str, Any]) -> float:
    """Return the seconds that the GPUs of the container need for a step, without communication."""
    seconds, gpus = float(law["seconds"]), max(1, len(visible_gpus()))
    if "overhead" not in law:
        return seconds
    return seconds * (1 + float(law["overhead"]) * (gpus - 1)) / gpus


def communication_seconds(law: dict[str, Any]) -> float:
    """Return the seconds that a step's data needs on the slowest link of the ring of GPUs."""
    gpus = visible_gpus()
    if len(gpus) <= 1 or not law.get("megabytes"):
        return 0.0
    ring = zip(gpus, gpus[1:] + gpus[:1], strict=True)
    slowest = min(float(law["links"][" ".join(sorted(pair))]) for pair in ring)
    return float(law["megabytes"]) / slowest


def start_workers(workers: int, images: int) -> "Queue[None]":
    """Return the queue that gets one token for each part of a batch that a worker has decoded."""
    decoded: Queue[None] = multiprocessing.Queue(_PREFETCHED * workers)
    for _ in range(workers):
        arguments = (decoded, max(1, images // workers))
        multiprocessing.Process(target=decode, args=arguments, daemon=True).start()
    return decoded


def decode(decoded: "Queue[None]", images: int) -> None:
    """Decode ``images`` JPEG files again and again; report each round."""
    encoded = noise_image()
    while True:
        for _ in range(images):
            Image.open(io.BytesIO(encoded)).convert("RGB").load()
        decoded.put(None)


def noise_image() -> bytes:
    """Return a JPEG file whose decoding takes about a millisecond."""
    image = Image.effect_noise((_SIDE, _SIDE), 64).convert("RGB")
    file = io.BytesIO()
    image.save(file, "JPEG", quality=_JPEG_QUALITY)
    return file.getvalue()


if __name__ == "__main__":
    main()
