"""Run all checks of ``gputopo doctor``, basic ones first."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from gputopo_cli.cluster.doctor.environment import environment
from gputopo_cli.cluster.doctor.installation import definitions, policies, versions, workloads
from gputopo_cli.cluster.doctor.model import ClusterSnapshot, Finding, NotCheckedError, Severity
from gputopo_cli.cluster.doctor.nodes import agents, competitors, kubelets
from gputopo_cli.cluster.doctor.placements import placements
from gputopo_cli.cluster.doctor.scheduler import scheduler


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """One check.

    Attributes:
        expectation: the state in which the check finds nothing.
        find: yields the findings of a cluster.
    """

    name: str
    expectation: str
    find: Callable[[ClusterSnapshot], Iterator[Finding]]


CHECKS: Final = (
    DoctorCheck(
        "definitions", "the cluster serves and stores the kinds of this version", definitions
    ),
    DoctorCheck("policies", "forged placements and overriding variables are rejected", policies),
    DoctorCheck(
        "workloads",
        "operator, scheduler and agents exist, operator and scheduler are ready",
        workloads,
    ),
    DoctorCheck("versions", "all programs have one version, which supports the cluster", versions),
    DoctorCheck("scheduler", "kube-scheduler asks the extender about every GPU pod", scheduler),
    DoctorCheck(
        "agents",
        "each node with GPUs has an agent, and kubelet has the GPUs that it reports",
        agents,
    ),
    DoctorCheck("competitors", "no other device plugin serves the same GPUs", competitors),
    DoctorCheck("kubelets", "no kubelet rejects pods after their GPUs were chosen", kubelets),
    DoctorCheck(
        "environment",
        "no pod selects GPUs by variables (NVIDIA's runtime is not checked: docs/runtime.md)",
        environment,
    ),
    DoctorCheck("placements", "every pod has the GPUs that its annotation names", placements),
)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The findings of a check.

    Attributes:
        unread: why the check is incomplete; None if it is complete.
    """

    check: DoctorCheck
    findings: tuple[Finding, ...] = ()
    unread: str | None = None

    def count(self, severity: Severity) -> int:
        """Return the number of findings of this severity."""
        return sum(finding.severity is severity for finding in self.findings)


def run_checks(snapshot: ClusterSnapshot) -> list[CheckResult]:
    """Return the results of all checks of a cluster."""
    return [_run(check, snapshot) for check in CHECKS]


def keep_lasting(before: Iterable[CheckResult], after: Iterable[CheckResult]) -> list[CheckResult]:
    """Return the later results, without findings that are new."""
    return [
        CheckResult(
            new.check,
            tuple(finding for finding in new.findings if finding in old.findings),
            new.unread,
        )
        for old, new in zip(before, after, strict=True)
    ]


def _run(check: DoctorCheck, snapshot: ClusterSnapshot) -> CheckResult:
    findings: list[Finding] = []
    try:
        for finding in check.find(snapshot):
            findings.append(finding)  # noqa: PERF402 - keeps those before an error
    except NotCheckedError as error:
        return CheckResult(check, tuple(findings), unread=str(error))
    return CheckResult(check, tuple(findings))
