"""Free TCP ports for servers of tests. The workers of pytest-xdist use different ports.

The ports are outside the kernel's range for clients and for servers that leave the choice to it
(``ip_local_port_range``), so that no other socket gets a port between the choice and its use.
"""

import itertools
import os
import random
import socket
from collections.abc import Iterator, Mapping
from typing import Final

_FIRST: Final = 12_000
_LAST: Final = 21_999


def free_port() -> int:
    """Return a port that no process listens on."""
    return next(_FREE)


def free_ports(count: int) -> list[int]:
    """Return different ports that no process listens on."""
    return list(itertools.islice(_FREE, count))


def ports_of(environment: Mapping[str, str]) -> range:
    """Return the ports of this worker process; without workers, all of them."""
    index = int(environment.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    size = (_LAST - _FIRST + 1) // int(environment.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return range(_FIRST + index * size, _FIRST + (index + 1) * size)


def free_among(ports: range) -> Iterator[int]:
    """Yield the free ones of ``ports`` in turn, from a random start: another run may use them."""
    start = random.randrange(len(ports))  # noqa: S311 - no secret
    for port in itertools.cycle([*ports[start:], *ports[:start]]):
        if is_free(port):
            yield port


def is_free(port: int) -> bool:
    """Return whether a server can listen on this port of the loopback address."""
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


_FREE: Final = free_among(ports_of(os.environ))
