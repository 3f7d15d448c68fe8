"""Reads a value of kubelet's configuration after each start of kubelet."""

from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from gputopo_deviceplugin.clock import loop_time
from gputopo_deviceplugin.kubelet.state import KubeletState

_MOST_PAUSES: Final = 64
"""The pause between two failed reads doubles up to this factor: kubelet logs failed handshakes."""

_Value = TypeVar("_Value")


class ReadWithBackoff(Generic[_Value]):
    """A value that is read once for each registration with kubelet, and again while it is unknown.

    Attributes:
        value: the value as it was last read.
        registration: number of registrations before the last read; None before the first read.
        retry_at: time of the event loop at which an unknown value may be read again; 0 if the value
            is known or has not been read.
    """

    def __init__(
        self,
        kubelet: KubeletState,
        read: Callable[[], Awaitable[_Value]],
        is_known: Callable[[_Value], bool],
        *,
        initial: _Value,
        retry_seconds: float,
    ) -> None:
        """Read with ``read``, again after ``retry_seconds`` if ``is_known`` is false.

        Args:
            kubelet: counts the registrations.
            read: returns the value, also an unknown one.
            is_known: returns whether a value is known.
            initial: the value before the first read.
            retry_seconds: pause after the first failed read; each further pause is longer.
        """
        self._kubelet = kubelet
        self._read = read
        self._is_known = is_known
        self._retry_seconds = retry_seconds
        self._failures = 0
        self.value = initial
        self.registration: int | None = None
        self.retry_at = 0.0

    async def update(self) -> None:
        """Read the value if it is unknown, or if kubelet has registered the agent since then."""
        registration = self._kubelet.registrations
        if self.registration != registration:
            self._failures, self.retry_at = 0, 0.0
        elif self._is_known(self.value) or loop_time() < self.retry_at:
            return
        self.value = await self._read()
        # kubelet may have started again during the read.
        self.registration = registration
        self.retry_at = 0.0
        if not self._is_known(self.value):
            pause = self._retry_seconds * min(2**self._failures, _MOST_PAUSES)
            self.retry_at = loop_time() + pause
            self._failures += 1
