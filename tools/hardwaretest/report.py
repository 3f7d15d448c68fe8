"""What was seen, as lines of text and as JSON."""

import json
import time
from pathlib import Path
from typing import Final

_FILE: Final = "hardware.json"


class Report:
    """Prints each observation at once, and writes all of them to a file after each."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _FILE
        self._began = time.monotonic()
        self._seen: list[dict[str, object]] = []

    def show(self, name: str, **values: object) -> None:
        """Record what was seen."""
        self._record({"name": name, **values})

    def check(self, name: str, *, holds: bool, **values: object) -> None:
        """Record whether the GPU behaves as gputopo expects."""
        self._record({"name": name, "holds": holds, **values})

    @property
    def failed(self) -> list[str]:
        """Names of the expectations that do not hold."""
        return [str(each["name"]) for each in self._seen if each.get("holds") is False]

    def _record(self, entry: dict[str, object]) -> None:
        self._seen.append(entry)
        mark = {True: "ok    ", False: "DIFFERS"}.get(bool(entry.get("holds")), "")
        mark = mark if "holds" in entry else "      "
        values = {key: value for key, value in entry.items() if key not in {"name", "holds"}}
        passed = time.monotonic() - self._began
        print(
            f"{passed:7.1f} {mark} {entry['name']}: {json.dumps(values, default=str)}", flush=True
        )
        self._path.write_text(json.dumps(self._seen, indent=1, default=str))
