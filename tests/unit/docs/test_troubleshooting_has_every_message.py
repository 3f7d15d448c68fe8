"""The page on troubleshooting has an entry for every message of the code, and for no other."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

import pytest

from gputopo.api.link_runs import RunResult
from gputopo.api.profiling import ProfilingResult
from gputopo.tuning.model import TuningEvent
from gputopo_cli.__main__ import BAD_INPUT, FAILED, INTERRUPTED
from gputopo_cli.shared.options import NEGATIVE_RESULT
from gputopo_kube.podstatus import ResizeReason
from gputopo_operator.decision.conditions import _PHASES, QUEUED
from gputopo_scheduling import share_options, sharing_state
from gputopo_scheduling.numa_limits import _UNKNOWN_CPUS
from support.documentation.messages import Found, Sink, collect

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/operate/troubleshooting.md").read_text()

OPERATOR, AGENT, EXTENDER = "gputopo_operator", "gputopo_deviceplugin", "gputopo_extender"
ENSEMBLES = "gputopo_operator.decision.ensemble"
WRAPPED = {"pod …: …"}
"""Texts that only add a name to another message."""

# For each section: the sinks in the code, the values of types, and the functions that pass on a
# text of another sink, of such a type, or of Kubernetes.
JOB_CONDITIONS = (
    Sink(OPERATOR, "ConditionUpdate", 2, without=ENSEMBLES),
    Sink(f"{OPERATOR}.decision.decide", "_rejected", 1),
    Sink(OPERATOR, "LinksResult", "result"),
    Sink(OPERATOR, "JobResult", 1, without="gputopo_operator.parse.ensembles"),
    Sink("gputopo.tuning.state", "resize_state"),
)
JOB_CONDITIONS_PASSED = {
    "conditions.repeated": "a condition that exists",
    "condition_updates._unscheduled": "kube-scheduler's reason",
    "condition_updates.finished": "JobResult, or the reason of the Kubernetes Job",
    "condition_updates.rejected": "_rejected",
    "link_results.failed_result": "RunResult",
    "profiled._cpus": "ProfilingResult",
    "profiled._links": "LinksResult",
    "profiled.profiled": "ConditionUpdate",
    "situation.recorded_result": "a condition that exists",
    "sized._sized": "resize_state",
    "state.resize_state": "ResizeReason",
}
TOPOLOGY_CONDITIONS = (
    Sink(AGENT, "NodeCondition", 2),
    Sink(AGENT, "NodeCondition", "reason"),
    Sink(AGENT, "not_ready", 0),
    Sink(f"{AGENT}.nri.rule", "_unbound", 0),
    Sink(f"{AGENT}.kubelet.numa_rule", "_condition", 0),
)
TOPOLOGY_CONDITIONS_PASSED = {
    "conditions.not_ready": "",
    "numa_rule._condition": "_condition",
    "rule._unbound": "",
}
EVENTS = (
    Sink(OPERATOR, "ObjectEvent", 1),
    Sink(f"{AGENT}.apiserver.events", "_write", 1),
    Sink(f"{EXTENDER}.verbs.postponement", "create_event", 1),
)
MISFITS = (
    Sink("gputopo_scheduling", "Misfit", 1),
    Sink("gputopo_scheduling.waiting", "reason"),
    Sink("gputopo_scheduling.request", "_unusable_containers"),
    Sink("gputopo_scheduling.request", "_unusable_shares"),
    Sink("gputopo_scheduling.sharing_state", "replace", "blocked"),
    Sink("gputopo_scheduling.sharing_state", "_too_much_memory"),
    Sink("gputopo_cluster.usage", "_PodGpus", "blocked"),
    Sink("gputopo_cluster.topologies", "why_not_ready"),
    Sink("gputopo_scheduling.numa_limits", "NumaObstacle", 1),
    Sink("gputopo_scheduling.numa_limits", "_unsupported"),
    Sink("gputopo_scheduling.numa_limits", "_rejection"),
    Sink("gputopo.placement.place", "NoFit", 0),
    Sink(EXTENDER, "filter_error", 0),
    Sink(EXTENDER, "TablesNotReadyError", 0),
    Sink(f"{EXTENDER}.verbs.app", "reason_not_ready"),
    Sink(f"{EXTENDER}.verbs.retries", "_reason"),
    Sink(f"{EXTENDER}.verbs.retries", "_deleted"),
    Sink(f"{EXTENDER}.state.rejections", "_Pause", 2),
)
MISFITS_PASSED = {
    "node_fits._match": "NoFit",
    "node_fits._shortage": "_PodGpus",
    "node_fits._too_few": "NOT_SHARED",
    "node_fits.match_on": "_not_ready, _Pause",
    "handlers.filter": "TablesNotReadyError, _reason",
    "numa_limits._permanent_obstacle": "_rejection, _UNKNOWN_CPUS",
    "numa_limits.limit_to_numa": "_unsupported, _rejection, _UNKNOWN_CPUS",
    "request.placement_request": "_unusable_containers, _unusable_shares, or an annotation's error",
    "retries._reason": "_deleted",
    "sharing_state.sharing_state": "_too_much_memory",
    "waiting.postponed": "reason",
}
NOT_SHARED = {
    *(sharing_state._NO_GPU, sharing_state._NONE_READY, sharing_state._TOO_SMALL),
    sharing_state._OUTAGE,
    *(
        sharing_state.NO_IDLE + reason
        for reason in (
            *share_options.REASONS.values(),
            share_options.NO_MEMORY,
            share_options.NOT_KNOWN,
        )
    ),
}
"""Why a pod that requests a share gets no GPU of a node."""

BINDS = (
    Sink(EXTENDER, "BindResult", 1),
    Sink(f"{EXTENDER}.fencing", "_fail", 1),
    Sink(f"{EXTENDER}.verbs.bind", "Misfit", 1),
)
BINDS_PASSED = {
    "bind._try": "Misfit",
    "bind.bind": "TablesNotReadyError",
    "binding_writer._after_conflict": "the API server's message",
    "binding_writer._bind_once": "the API server's message",
}
REJECTIONS = (
    Sink(f"{AGENT}.admit", "AdmissionRejection", 0),
    Sink(f"{AGENT}.sharing", "AdmissionRejection", 0),
    Sink(f"{AGENT}.admit", "PlacementError", 0),
    Sink(f"{AGENT}.admit", "_obstacle"),
    Sink(f"{AGENT}.admit", "_describe_use"),
)
REJECTIONS_PASSED = {
    "admission._identify": "an error of kubelet's pod-resources API",
    "identify._allocation": "PlacementError",
    "verify._obstacle": "_describe_use",
}


def entries(section: str, level: str = "##") -> set[str]:
    """Return the first cells of the tables in a section of the page."""
    end = rf"^#{{2,{len(level)}}} "
    found = re.search(rf"(?ms)^{level} {re.escape(section)}\n(.*?)(?={end}|\Z)", PAGE)
    assert found, section
    cells = re.findall(r"(?m)^\| `([^`]+)` \|", found[1])
    assert cells, section
    return set(cells)


def of_types(*types: object) -> set[str]:
    return {value for each in types for value in get_args(each)}


@pytest.mark.parametrize(
    ("section", "sinks", "others", "passed"),
    [
        (
            "Conditions of a GPUJob",
            JOB_CONDITIONS,
            of_types(RunResult, ProfilingResult, ResizeReason),
            JOB_CONDITIONS_PASSED,
        ),
        (
            "Conditions of a GPUTopology",
            TOPOLOGY_CONDITIONS,
            set(),
            TOPOLOGY_CONDITIONS_PASSED,
        ),
        ("Conditions of a GPUEnsemble", (Sink(ENSEMBLES, "ConditionUpdate", 2),), set(), {}),
        ("Conditions of a GPUProfile", (Sink("gputopo.profiles", "_State", 1),), set(), {}),
        (
            "Events",
            EVENTS,
            {*TuningEvent, "ProfileFound", "ProfileCreated", "ProfileNotCreated"},
            {"events._profile": "profile_ready", "tuning_events.tuning_event": "TuningEvent"},
        ),
        ("Why a pod fits on no node", MISFITS, {_UNKNOWN_CPUS, *NOT_SHARED}, MISFITS_PASSED),
        ("Errors of bind", BINDS, set(), BINDS_PASSED),
        ("Rejected by the node agent", REJECTIONS, set(), REJECTIONS_PASSED),
    ],
)
def test_every_message_of_the_code_has_an_entry_and_every_entry_is_a_message(
    section: str, sinks: tuple[Sink, ...], others: set[str], passed: Mapping[str, str]
) -> None:
    found = collect(sinks)
    assert found.passed == set(passed), "a text that is made elsewhere"
    assert entries(section) == (found.texts | others) - WRAPPED


@pytest.mark.parametrize(
    ("condition", "sinks", "others"),
    [
        (
            "Sized",
            (
                Sink(f"{OPERATOR}.decision.sized", "ConditionUpdate", 2),
                Sink("gputopo.tuning.state", "resize_state"),
            ),
            of_types(ResizeReason),
        ),
        (
            "Profiled",
            (
                Sink(f"{OPERATOR}.decision.profiled", "ConditionUpdate", 2),
                Sink(OPERATOR, "LinksResult", "result"),
            ),
            of_types(RunResult, ProfilingResult),
        ),
        ("Postponed", (Sink(f"{OPERATOR}.decision.postponed", "ConditionUpdate", 2),), set()),
    ],
)
def test_the_table_of_a_condition_has_all_of_its_reasons(
    condition: str, sinks: tuple[Sink, ...], others: set[str]
) -> None:
    assert entries(condition, "###") == collect(sinks).texts | others


def test_live_sizing_lists_the_reasons_of_its_condition() -> None:
    page = (ROOT / "docs/use/live-sizing.md").read_text()
    rows = re.findall(r"(?m)^\| `(?:True|False)`, (.*?) \|", page)
    listed = {reason for row in rows for reason in re.findall(r"`(\w+)`", row)}
    assert listed == entries("Sized", "###")


def test_every_admission_policy_that_rejects_has_an_entry() -> None:
    templates = {
        path.stem.removeprefix("policy-"): path.read_text()
        for path in (ROOT / "charts/gputopo/templates").glob("policy-*.yaml")
    }
    validating = {name for name, text in templates.items() if "validations:" in text}
    assert entries("Rejected by an admission policy") == validating
    assert set(templates) - validating == {"facts", "sharing", "tuned-label"}


def test_every_exit_status_has_an_entry() -> None:
    statuses = {0, FAILED, BAD_INPUT, NEGATIVE_RESULT, INTERRUPTED}
    assert entries("Exit status") == set(map(str, statuses))


def test_every_phase_has_an_entry() -> None:
    phases = {phase for _, phase in _PHASES} | {QUEUED, "Refused", "Pending"}
    assert entries("The phase of a GPUJob") == phases


CODE = """
CONSTANT = "constant"

def send(reason, message): ...

def pick(found):
    kind, reason = ("a", "tuple 1") if found else ("b", "tuple 2")
    send(reason, "")
    for type_, each in (("x", "loop 1"), ("y", "loop 2")):
        send(each, type_)
    text = f"{found} inserted" if found else "plain"
    send(f"{text}: {found.name}", "")
    send(CONSTANT or None, "")
    def inner():
        send("inside", "")
    return "result"

def passes(reason):
    send(reason, "")
    send(message="keyword", reason=truncated("short"))
"""


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/example_of_sinks.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path / "src"))
    monkeypatch.setattr("support.documentation.messages.ROOT", tmp_path)
    return "example_of_sinks"


def test_collector_finds_texts_in_conditions_variables_loops_and_constants(code: str) -> None:
    assert collect([Sink(code, "send", 0)]) == Found(
        {
            *("tuple 1", "tuple 2", "loop 1", "loop 2", "constant", "inside"),
            *("… inserted: …", "plain: …"),
        },
        {"example_of_sinks.passes"},
    )
    assert collect([Sink(code, "send", "reason")]) == Found({"short"}, set())
    assert collect([Sink(code, "pick")]) == Found({"result"}, set())


def test_collector_rejects_a_sink_that_was_renamed(code: str) -> None:
    with pytest.raises(AssertionError, match="does not occur"):
        collect([Sink(code, "sent", 0)])
