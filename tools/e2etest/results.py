"""Results of the end-to-end tests by version of Kubernetes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree as ET

SKIP_PREFIXES = ("Kubernetes v", "kind: ")
"""Begin of the reasons for which a test may be skipped: the version of Kubernetes lacks what it
tests, or a cluster of kind lacks an action."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What pytest reports.

    Attributes:
        passed: number of tests.
        failed: names of tests that failed, or whose setup or clean-up did.
        skipped: reasons by name of the test.
    """

    passed: int = 0
    failed: Sequence[str] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VersionResult:
    """Result for one version of Kubernetes.

    Attributes:
        kubernetes: "v1.36.4".
        tests: what pytest reports.
        start_seconds: until the nodes were Ready; the programs were built before.
        test_seconds: duration of all tests, with the installation of the chart.
        error: why the run is not complete; empty if it is.
    """

    kubernetes: str
    tests: Outcomes
    start_seconds: float
    test_seconds: float
    error: str = ""

    @property
    def problems(self) -> list[str]:
        """Why this version does not count as tested."""
        found = [self.error] if self.error else []
        found += [f"failed: {name}" for name in self.tests.failed]
        found += [
            f"skipped for another reason than a missing feature or action: {name}: {reason}"
            for name, reason in self.tests.skipped.items()
            if not reason.startswith(SKIP_PREFIXES)
        ]
        return found


def parse_junit(text: str) -> Outcomes:
    """Results in a JUnit XML file that pytest has written.

    Raises:
        ValueError: the text is not such a file.
    """
    try:
        root = ET.fromstring(text)  # noqa: S314 - pytest has written it on this machine
    except ET.ParseError as error:
        raise ValueError(f"not a JUnit file: {error}") from None
    # A test that fails and whose clean-up fails too has two elements.
    by_name: dict[str, dict[str, str]] = {}
    for case in root.iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name', '')}"
        kinds = {outcome.tag: outcome.get("message", "") for outcome in case}
        by_name[name] = by_name.get(name, {}) | kinds
    failed = [name for name, kinds in by_name.items() if kinds.keys() & {"failure", "error"}]
    skipped = {
        name: kinds["skipped"]
        for name, kinds in by_name.items()
        if "skipped" in kinds and name not in failed
    }
    return Outcomes(len(by_name) - len(failed) - len(skipped), failed, skipped)


def document(results: Sequence[VersionResult]) -> dict[str, Any]:
    """All results for JSON."""
    return {
        "versions": [
            {
                "kubernetes": each.kubernetes,
                "passed": each.tests.passed,
                "failed": list(each.tests.failed),
                "skipped": dict(each.tests.skipped),
                "startSeconds": round(each.start_seconds, 1),
                "testSeconds": round(each.test_seconds, 1),
                "error": each.error,
            }
            for each in results
        ]
    }


def table(results: Sequence[VersionResult]) -> Iterator[str]:
    """A line for each version, then the reasons of skipped tests, then all problems."""
    line = "{:<12} {:>6} {:>6} {:>7} {:>9} {:>8}"
    yield line.format("KUBERNETES", "PASSED", "FAILED", "SKIPPED", "START (s)", "TEST (s)")
    for each in results:
        counts = (each.tests.passed, len(each.tests.failed), len(each.tests.skipped))
        seconds = (f"{each.start_seconds:.0f}", f"{each.test_seconds:.0f}")
        yield line.format(each.kubernetes, *counts, *seconds)
    for each in results:
        for name, reason in each.tests.skipped.items():
            yield f"{each.kubernetes}: skipped {name}: {reason}"
    for each in results:
        for problem in each.problems:
            yield f"{each.kubernetes}: {problem}"
