"""Check requests, and choose the jobs that run now by their GPUs and the queue order."""

from collections.abc import Sequence

from gputopo.errors import InvalidInputError
from gputopo.sizing.model import ServerCapacity, SizingRequest


def check_names(servers: Sequence[ServerCapacity], requests: Sequence[SizingRequest]) -> None:
    """Check that there is a server, and that names of servers and jobs are unique.

    Raises:
        InvalidInputError: there is no server, or two servers or jobs have the same name.
    """
    if not servers:
        raise InvalidInputError("servers: the list is empty; at least one server is needed")
    _check_unique("server", [server.name for server in servers])
    _check_unique("job", [request.job for request in requests])


def _check_unique(kind: str, names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        double = next(name for index, name in enumerate(names) if name in names[:index])
        raise InvalidInputError(f"{kind} {double}: the name is used twice; names must be unique")


def runnable(
    servers: Sequence[ServerCapacity], requests: Sequence[SizingRequest]
) -> list[SizingRequest]:
    """Return the requests that run now: in queue order, each one for which enough GPUs are left.

    A later job can run while an earlier job waits for more GPUs. So no GPU stays idle that a
    waiting job could use (Synergy paper, section 4.2).
    """
    free = sum(server.gpus for server in servers)
    chosen = []
    for request in requests:
        gpus = request.gpus
        if gpus <= free:
            chosen.append(request)
            free -= gpus
            if free == 0:
                break
    return chosen
