"""Derives from the agent's samples how a pod's throughput depends on its CPU limit."""

from collections.abc import Iterable, Sequence
from hashlib import sha256

from gputopo.api.profile import Sample
from gputopo.api.profiling import MAX_POINTS, ProfiledPoint


def setting_of(sample: Sample) -> str:
    """Return the setting of a sample: a hash of all conditions of its speed except the CPUs.

    The conditions are the number, model and bandwidth of the GPUs, the image, the memory limit, and
    the workloads of other pods on the same GPU and on the NUMA nodes of the GPUs.
    """
    parts = (
        sample.gpu_model,
        sample.gpus,
        sample.image_digest,
        sample.model,
        sample.pattern,
        sample.effective_mb_per_s,
        sample.memory_bytes,
        sorted(sample.socket_neighbours),
        *([sorted(sample.gpu_neighbours)] if sample.gpu_neighbours else []),
    )
    return sha256(repr(parts).encode()).hexdigest()[:12]


def newest_setting(own: Iterable[Sample]) -> str | None:
    """Return the setting of the newest sample (see :func:`setting_of`), or None without samples."""
    newest = max(own, key=lambda sample: sample.time, default=None)
    return None if newest is None else setting_of(newest)


def merged(points: Sequence[ProfiledPoint], own: Iterable[Sample]) -> tuple[ProfiledPoint, ...]:
    """Update the stored points of a pod with its samples. Return the newest ``MAX_POINTS`` points.

    A point is the speed with one CPU limit in one setting. The newest points are last.
    """
    known = {(point.milli_cpu, point.setting): point for point in points}
    for sample in sorted(own, key=lambda each: each.time):
        if sample.milli_cpu is None:
            continue
        key = sample.milli_cpu, setting_of(sample)
        before = known.pop(key, None)
        known[key] = ProfiledPoint(
            milli_cpu=sample.milli_cpu,
            micro_steps_per_second=sample.micro_steps_per_second,
            seconds=before.seconds if before else 0,
            setting=key[1],
        )
    return tuple(known.values())[-MAX_POINTS:]


def curve_of(
    setting: str, points: Iterable[ProfiledPoint], profile: Iterable[Sample]
) -> dict[int, int]:
    """Return the micro-steps per second for each CPU limit (thousandths of a CPU) of one setting.

    ``points`` has the speeds of the measured pod. ``profile`` has samples of the workload, also of
    earlier pods. If both have a speed for one limit, the speed in ``points`` is used. A limit is 0
    if the pod reached no steady rate with it, and ``profile`` has no speed for it.
    """
    earlier = {
        sample.milli_cpu: sample.micro_steps_per_second
        for sample in sorted(profile, key=lambda each: each.time)
        if sample.milli_cpu is not None and setting_of(sample) == setting
    }
    own = {
        point.milli_cpu: point.micro_steps_per_second
        for point in points
        if point.setting == setting
    }
    measured = {limit: rate for limit, rate in own.items() if rate}
    return own | earlier | measured
