"""Describes what was measured, and how many training steps the job lost by the measurement."""

from gputopo.api.profiling import ProfiledPoint, ProfilingState


def summary(state: ProfilingState) -> str:
    """Describe points, time and cost, such as ``3 points (1000m to 8000m CPU) in 412 s; ...``.

    The cost is the number of training steps that the job lost because it did not have its original
    CPUs. If the job made more steps because it had more CPUs, the text says ``gain``. The cost of
    points without a steady rate is unknown, and not part of it.
    """
    used = [point for point in state.points if point.seconds]
    if not used:
        return "the CPUs of the pod were not changed"
    limits = sorted({point.milli_cpu for point in used})
    seconds = sum(point.seconds for point in used)
    text = f"{_count(len(limits), 'point')} ({limits[0]}m to {limits[-1]}m CPU) in {seconds} s"
    rated = [point for point in used if point.micro_steps_per_second]
    without = {point.milli_cpu for point in used if not point.micro_steps_per_second}
    if without:
        text += f"; {_count(len(without), 'point')} without a rate"
    lost = _lost_steps(state, rated)
    if lost is None:
        return text
    kind, others = "cost" if lost >= 0 else "gain", " with the other points" if without else ""
    return f"{text}; {kind} {_count(abs(lost), 'training step')}{others}"


def _lost_steps(state: ProfilingState, rated: list[ProfiledPoint]) -> int | None:
    """Return the training steps lost with the points that have a rate.

    Return None if there are no such points, or the rate with the original CPUs is unknown.
    """
    own = {
        point.setting: point.micro_steps_per_second
        for point in state.points
        if point.milli_cpu == state.original.limit and point.micro_steps_per_second
    }
    if not rated or any(point.setting not in own for point in rated):
        return None
    lost = (point.seconds * (own[point.setting] - point.micro_steps_per_second) for point in rated)
    return round(sum(lost) / 1e6)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
