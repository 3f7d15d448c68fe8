"""Watches when the pods of a namespace begin to run."""

import threading
import time
from collections.abc import Mapping

from latencytest.objects import PODS
from showcase.kubectl import wait_for
from soaktest.client import Client, RejectedError, UnavailableError

_LONGEST_SECONDS = 60.0
_LOOK_SECONDS = 0.002


class RunningTimes:
    """The monotonic time at which a watch showed each pod as Running for the first time."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._times: dict[str, float] = {}
        self._seen: set[str] = set()
        self._ended = threading.Event()
        self._version = client.get(PODS)["metadata"]["resourceVersion"]
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def wait(self, count: int) -> Mapping[str, float]:
        """Return the times by name, and forget them, when this many pods run.

        Raises:
            TimeoutError: they do not run in time.
        """
        until = time.monotonic() + _LONGEST_SECONDS
        while len(self._times) < count:
            if time.monotonic() > until:
                raise TimeoutError(f"{len(self._times)} of {count} pods run")
            time.sleep(_LOOK_SECONDS)
        times, self._times = self._times, {}
        return times

    def stop(self) -> None:
        """End the watch."""
        self._ended.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._ended.is_set():
            try:
                for kind, pod in self._client.watch(PODS, self._version):
                    self._version = pod["metadata"]["resourceVersion"]
                    now = time.monotonic()
                    uid, ended = pod["metadata"]["uid"], kind == "DELETED"
                    running = not ended and pod["status"].get("phase") == "Running"
                    if running and uid not in self._seen:
                        self._seen.add(uid)
                        self._times[pod["metadata"]["name"]] = now
            except (UnavailableError, RejectedError):
                continue


def wait_until_gone(client: Client) -> None:
    """Wait until no pod is left."""
    wait_for("all pods are gone", lambda: not client.get(PODS)["items"], timeout_s=60)
