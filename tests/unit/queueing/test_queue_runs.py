"""Ten jobs on one node, from the first start to the last end, in each queue order."""

import pytest

from gputopo.queueing.decide import decide_queue
from gputopo.queueing.model import AdmittedJob, QueueOrder, QueueRules, QueueState, WaitingJob

# GPUs and run time in seconds of each job, in the order of creation.
JOBS = {
    "a": (2, 400),
    "b": (4, 300),
    "c": (1, 50),
    "d": (1, 200),
    "e": (2, 100),
    "f": (4, 80),
    "g": (1, 30),
    "h": (1, 60),
    "i": (2, 20),
    "j": (1, 10),
}


def run(order: QueueOrder, max_skip_seconds: float = 10_000) -> tuple[str, float]:
    """Return the jobs in the order of their starts, and the mean of their ends in seconds."""
    rules, starts = QueueRules(order, max_skip_seconds), dict[str, float]()
    ends = dict[str, float]()
    now = 0.0
    while len(starts) < len(JOBS):
        waiting = [
            WaitingJob(job, gpus, created, created, expected_seconds=seconds)
            for created, (job, (gpus, seconds)) in zip(range(-10, 0), JOBS.items(), strict=True)
            if job not in starts
        ]
        running = [
            AdmittedJob(job, JOBS[job][0], "n1", start)
            for job, start in starts.items()
            if ends[job] > now
        ]
        decision = decide_queue(QueueState({"n1": 4}, tuple(running), tuple(waiting), now), rules)
        for each in decision.admitted:
            starts[each.job], ends[each.job] = now, now + JOBS[each.job][1]
        now = min(end for end in ends.values() if end > now)
    return "".join(starts), sum(ends.values()) / len(ends)


@pytest.mark.parametrize(
    ("order", "started"),
    [
        (QueueOrder.FIFO, "acdghjeibf"),
        (QueueOrder.LAS, "acdghjeibf"),
        (QueueOrder.SRTF, "jigchdeafb"),
        (QueueOrder.FTF, "cgijhedafb"),
    ],
)
def test_jobs_start_in_the_order_of_the_queue(order: QueueOrder, started: str) -> None:
    assert run(order)[0] == started


def test_mean_end_is_earlier_with_the_shortest_job_first() -> None:
    assert run(QueueOrder.SRTF)[1] < 0.9 * run(QueueOrder.FIFO)[1]


@pytest.mark.parametrize("order", QueueOrder)
def test_jobs_with_all_gpus_start_before_others_when_they_are_overdue(order: QueueOrder) -> None:
    patient, bounded = run(order)[0], run(order, max_skip_seconds=100)[0]
    assert bounded.index("b") < patient.index("b")
