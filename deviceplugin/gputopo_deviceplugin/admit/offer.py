"""Which GPUs kubelet may give to new containers, and which it must keep. Pure."""

from dataclasses import dataclass

from gputopo.topology.model import GpuUuid


@dataclass(frozen=True, slots=True)
class Withheld:
    """Why GPUs without a container are not offered: one word and a text."""

    reason: str
    message: str


def withheld_of(
    *, connected: bool, competitor: str | None, without_record: tuple[str, ...]
) -> Withheld | None:
    """Return why nothing new may be given out, None where it may.

    Args:
        connected: whether the API server answers.
        competitor: what else allocates this node's GPUs.
        without_record: running pods for whose GPUs kubelet has no record.
    """
    if not connected:
        return Withheld("APIServerUnreachable", "the API server does not answer the agent")
    if competitor is not None:
        return Withheld("CompetingAllocator", competitor)
    if without_record:
        return Withheld(
            "KubeletRecordsLost",
            f"kubelet has no record of the GPUs of these running pods: {', '.join(without_record)};"
            " delete them or drain the node; the node is offered again when they have ended",
        )
    return None


class AssignedGpus:
    """The GPUs that containers have by kubelet's list, never fewer than they have.

    Attributes:
        gpus: the GPUs.
        known: whether kubelet has listed its pods since the agent's start.
    """

    def __init__(self) -> None:
        """Know nothing yet."""
        self.gpus: frozenset[GpuUuid] = frozenset()
        self.known = False

    def listed(self, gpus: frozenset[GpuUuid], *, complete: bool) -> None:
        """Take over a list.

        Args:
            gpus: of all listed containers.
            complete: False where kubelet may not have all of its pods yet. After its start it
                lists none, and then one more for each that it has admitted again.
        """
        self.gpus = gpus if complete else self.gpus | gpus
        self.known = True

    def add(self, gpus: frozenset[GpuUuid]) -> None:
        """Add GPUs of a grant that kubelet does not list yet."""
        self.gpus |= gpus
