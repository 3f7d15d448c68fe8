"""Names the state of the newest resize of a pod, in the words of the condition ``Sized``."""

from gputopo.api.tuning import TunedRecord


def resize_state(record: TunedRecord, problem: str | None) -> str:
    """Return the reason of the condition ``Sized``.

    Args:
        record: the record of the pod.
        problem: kubelet's reason why it has not carried out the resize; None if it reports none.
    """
    if record.pinned:
        return "Pinned"
    if record.done:
        return "Rejected" if record.rejected else "Resized"
    return problem or "Resizing"
