"""Makes the record of a wait: the annotation ``gputopo.io/postponed``."""

from gputopo.api.waiting import PostponedAnnotation, WaitEnd
from gputopo.runtime.times import timestamp_of, unix_seconds
from gputopo_scheduling.waiting import PodWait


def begun(uid: str, wait: PodWait, now: float) -> PostponedAnnotation:
    """Return the record of a wait of the pod with this UID that begins now, in Unix time."""
    return PostponedAnnotation(
        uid=uid,
        value=wait.rule.name,
        since=timestamp_of(now),
        until=timestamp_of(wait.terms.until or now),
        minimum_permille=wait.rule.minimum_permille,
        now_permille=wait.outlook.now_permille,
        then_permille=wait.outlook.then_permille,
    )


def ended(
    record: PostponedAnnotation, permille: int, now: float, *, expired: bool
) -> PostponedAnnotation:
    """Return the record of a wait that ends now with a placement of this value."""
    seconds = max(0, int(now - (unix_seconds(record.since) or now)))
    return record.ended(WaitEnd(seconds=seconds, permille=permille, expired=expired))
