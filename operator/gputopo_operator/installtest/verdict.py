"""The result of one check, and the text that ``helm test --logs`` shows."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum


class InstallVerdict(StrEnum):
    """Result of a check; ``SKIPPED`` if the cluster does not permit or does not need it."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class InstallCheck:
    """One check. ``details`` is one line: what was found and, after a failure, what to do."""

    name: str
    verdict: InstallVerdict
    details: str


def has_failed(checks: Sequence[InstallCheck]) -> bool:
    """Return whether the installation does not work."""
    return any(check.verdict is InstallVerdict.FAILED for check in checks)


def show(checks: Sequence[InstallCheck], form: str) -> str:
    """Return the results as a JSON document or as a table."""
    if form == "json":
        return json.dumps({"checks": [asdict(check) for check in checks]}, indent=2)
    return "\n".join(_table(checks))


def _table(checks: Sequence[InstallCheck]) -> Iterator[str]:
    yield f"{'RESULT':8} {'CHECK':18} DETAILS"
    for check in checks:
        yield f"{check.verdict:8} {check.name:18} {' '.join(check.details.split())}"
