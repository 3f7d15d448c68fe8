"""Reads DCGM's exporter on this node."""

from collections.abc import Callable
from typing import Final, Protocol

from gputopo_deviceplugin.counters.calls import clock_us
from gputopo_deviceplugin.counters.exporter import parse_exporter
from gputopo_deviceplugin.counters.faults import CounterError, FaultKind
from gputopo_deviceplugin.counters.session import ExporterState
from gputopo_kube.endpoint import EndpointError

SCRAPE_SECONDS: Final = 5.0
"""Time between two scrapes. The exporter's own interval is 30 s by default."""

RESPONSE_SECONDS: Final = 2.0
"""Time limit for one response."""


class ExporterReader(Protocol):
    """Reads HTTP endpoints; see ``EndpointClient``."""

    async def read(self, url: str) -> bytes:
        """Return the text of an endpoint, or raise ``EndpointError``."""
        ...


class ExporterScraper:
    """Reads the exporter at most every 5 s, and keeps what it has returned."""

    def __init__(
        self, client: ExporterReader, url: str, clock_us: Callable[[], int] = clock_us
    ) -> None:
        """Read ``url``, or nothing if it is empty; ``clock_us`` is the time since 1970."""
        self._client: Final = client
        self._url: Final = url
        self._clock_us: Final = clock_us
        self._scraped_at: float | None = None
        self._scraped_us: int | None = None
        self._state: ExporterState = CounterError(
            FaultKind.UNSUPPORTED, "no exporter is configured (devicePlugin.counters.dcgmExporter)"
        )

    async def scrape(self, now: float) -> ExporterState:
        """Return what the exporter shows; ``now`` is the time of the event loop in seconds."""
        due = self._scraped_at is None or now - self._scraped_at >= SCRAPE_SECONDS
        if self._url and due:
            self._scraped_at = now
            await self._read()
        return self._state

    async def _read(self) -> None:
        try:
            text = await self._client.read(self._url)
        except EndpointError as error:
            self._scraped_us = None
            self._state = CounterError(FaultKind.FAILED, str(error))
            return
        to_us = self._clock_us()
        # The first values are means over an interval that the exporter does not state.
        from_us = self._scraped_us or to_us - round(SCRAPE_SECONDS * 1e6)
        self._scraped_us = to_us
        self._state = parse_exporter(text, from_us, to_us)
