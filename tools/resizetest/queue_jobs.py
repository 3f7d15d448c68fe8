"""The ten jobs of the experiment with the queue, and their manifests. Pure."""

from gputopo.api.names import API_VERSION
from resizetest.queue_definition import QueuedJob
from soaktest.client import Object

GPUS = 8
"""GPUs of the node on which the jobs run."""

JOBS = (
    QueuedJob("q", 4, 24, 44, ran_seconds=20),
    QueuedJob("t", 2, 38, 50, ran_seconds=12),
    QueuedJob("k", 4, 30, 30),
    QueuedJob("f", 2, 42, 42),
    QueuedJob("z", 8, 14, 14),
    QueuedJob("b", 1, 20, 20),
    QueuedJob("m", 2, 8, 8),
    QueuedJob("w", 1, 10, 10),
    QueuedJob("h", 1, 8, 8),
    QueuedJob("d", 4, 12, 12),
)
"""The jobs in the order of their creation; the first two run and are suspended before.

They were drawn so that the four orders differ, and that delays of some seconds change no order.
"""


def sleeper(job: QueuedJob, node: str, image: str) -> Object:
    """Return a GPUJob that does nothing on a node for ``job.seconds``, and then succeeds."""
    container = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", f"trap 'exit 1' TERM; sleep {job.seconds:g} & wait"],
        "resources": {"requests": {"cpu": "5m", "memory": "8Mi"}},
    }
    pod = {
        "terminationGracePeriodSeconds": 2,
        "nodeSelector": {"kubernetes.io/hostname": node},
        "containers": [container],
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "GPUJob",
        "metadata": {"name": job.name},
        "spec": {
            "gpusPerReplica": job.gpus,
            "expected": {"durationSeconds": round(job.expected_seconds)},
            "template": {"spec": pod},
        },
    }
