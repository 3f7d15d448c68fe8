"""Run all checks of ``gputopo doctor``, basic ones first."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from gputopo_cli.cluster.doctor.agents import check_agents
from gputopo_cli.cluster.doctor.environment import check_environment
from gputopo_cli.cluster.doctor.installation import (
    check_definitions,
    check_policies,
    check_versions,
    check_workloads,
)
from gputopo_cli.cluster.doctor.kubelets import check_kubelets
from gputopo_cli.cluster.doctor.model import CheckedCluster, Finding, NotCheckedError, Severity
from gputopo_cli.cluster.doctor.placements import check_placements
from gputopo_cli.cluster.doctor.plugins import check_competitors
from gputopo_cli.cluster.doctor.scheduler import check_scheduler
from gputopo_cli.cluster.doctor.shares import check_shares


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """One check of ``gputopo doctor``.

    Attributes:
        expectation: what is true if the check finds no problem.
        find: yields the problems that the check finds in a cluster.
    """

    name: str
    expectation: str
    find: Callable[[CheckedCluster], Iterator[Finding]]


CHECKS: Final = (
    DoctorCheck(
        "definitions", "the cluster serves and stores the kinds of this version", check_definitions
    ),
    DoctorCheck(
        "policies",
        "admission policies reject pods in which users choose GPUs by annotation or variable",
        check_policies,
    ),
    DoctorCheck(
        "workloads",
        "operator, scheduler and agents exist, operator and scheduler are ready",
        check_workloads,
    ),
    DoctorCheck(
        "versions",
        "all programs have the same version, and it supports the cluster",
        check_versions,
    ),
    DoctorCheck(
        "scheduler", "kube-scheduler calls the extender for every GPU pod", check_scheduler
    ),
    DoctorCheck(
        "agents",
        "each node with GPUs has an agent, and kubelet offers the GPUs that the agent reports",
        check_agents,
    ),
    DoctorCheck("competitors", "no other device plugin serves the same GPUs", check_competitors),
    DoctorCheck("kubelets", "no kubelet rejects pods after their GPUs were chosen", check_kubelets),
    DoctorCheck(
        "environment",
        "no pod selects GPUs by variables"
        " (NVIDIA's runtime is not checked: docs/operate/runtime.md)",
        check_environment,
    ),
    DoctorCheck("shares", "nodes that offer shares of GPUs take sharing pods", check_shares),
    DoctorCheck("placements", "every pod has the GPUs that its annotation names", check_placements),
)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The findings of a check.

    Attributes:
        unread: why objects that the check needs could not be read; None if all were read.
    """

    check: DoctorCheck
    findings: tuple[Finding, ...] = ()
    unread: str | None = None

    def count(self, severity: Severity) -> int:
        """Return the number of findings of this severity."""
        return sum(finding.severity is severity for finding in self.findings)


def run_checks(snapshot: CheckedCluster) -> list[CheckResult]:
    """Return the results of all checks of a cluster."""
    return [_run(check, snapshot) for check in CHECKS]


def keep_lasting(before: Iterable[CheckResult], after: Iterable[CheckResult]) -> list[CheckResult]:
    """Return the results of ``after``, with only the findings that are also in ``before``."""
    return [
        CheckResult(
            new.check,
            tuple(finding for finding in new.findings if finding in old.findings),
            new.unread,
        )
        for old, new in zip(before, after, strict=True)
    ]


def _run(check: DoctorCheck, snapshot: CheckedCluster) -> CheckResult:
    findings: list[Finding] = []
    try:
        for finding in check.find(snapshot):
            findings.append(finding)  # noqa: PERF402 - keeps findings before an error
    except NotCheckedError as error:
        return CheckResult(check, tuple(findings), unread=str(error))
    return CheckResult(check, tuple(findings))
