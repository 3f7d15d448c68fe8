"""All checks, in the order in which one thing rests on another."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from gputopo_cli.cluster.doctor.environment import environment
from gputopo_cli.cluster.doctor.installation import definitions, policies, versions, workloads
from gputopo_cli.cluster.doctor.model import Finding, NotCheckedError, Severity, Snapshot
from gputopo_cli.cluster.doctor.nodes import agents, competitors, kubelets
from gputopo_cli.cluster.doctor.placements import placements
from gputopo_cli.cluster.doctor.scheduler import scheduler


@dataclass(frozen=True, slots=True)
class Check:
    """A name, what all is well means, and the check itself."""

    name: str
    fine: str
    find: Callable[[Snapshot], Iterator[Finding]]


CHECKS: Final = (
    Check("definitions", "the cluster serves and stores the kinds of this version", definitions),
    Check("policies", "forged placements and overriding variables are rejected", policies),
    Check("workloads", "operator, scheduler and agents are there, the first two ready", workloads),
    Check("versions", "all programs are of one version, and fit the cluster", versions),
    Check("scheduler", "kube-scheduler asks the extender about every GPU pod", scheduler),
    Check("agents", "each node with GPUs has an agent, and kubelet counts what it says", agents),
    Check("competitors", "nothing else serves the same GPUs", competitors),
    Check("kubelets", "no kubelet refuses what the scheduler chose", kubelets),
    Check(
        "environment",
        "no pod chooses GPUs by variables (NVIDIA's runtime is not checked: docs/runtime.md)",
        environment,
    ),
    Check("placements", "every pod has the GPUs that its annotation names", placements),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a check found; ``unread`` says why it could not be made in full, None where it was."""

    check: Check
    findings: tuple[Finding, ...] = ()
    unread: str | None = None

    def count(self, severity: Severity) -> int:
        """Return how many findings are so bad."""
        return sum(finding.severity is severity for finding in self.findings)


def examine(snapshot: Snapshot) -> list[Outcome]:
    """Return what every check finds in a cluster."""
    return [_outcome(check, snapshot) for check in CHECKS]


def lasting(before: Iterable[Outcome], after: Iterable[Outcome]) -> list[Outcome]:
    """Return the later outcomes, with the findings that were there before as well."""
    return [
        Outcome(
            new.check,
            tuple(finding for finding in new.findings if finding in old.findings),
            new.unread,
        )
        for old, new in zip(before, after, strict=True)
    ]


def _outcome(check: Check, snapshot: Snapshot) -> Outcome:
    findings: list[Finding] = []
    try:
        for finding in check.find(snapshot):
            findings.append(finding)  # noqa: PERF402 - those before what cannot be read count
    except NotCheckedError as error:
        return Outcome(check, tuple(findings), unread=str(error))
    return Outcome(check, tuple(findings))
