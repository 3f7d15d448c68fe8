"""A user who writes the worst values into every field that a part of gputopo reads."""

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from gputopo.api import names
from gputopo.api.fields import FIELDS, Field, Place
from gputopo.api.profiling import CpuAmounts, ProfilingState
from support.builders.gpujobs import gpu_job
from support.control_plane.api_server import PODS, ApiResponse, ApiServer, User
from support.control_plane.namespace_users import add_rights, put_user
from support.operator.ensembles import ensemble, member

NAMESPACE = "mallory"
OWN_PODS = PODS.replace("default", NAMESPACE)
OWN_KINDS = f"/apis/gputopo.io/v1alpha1/namespaces/{NAMESPACE}"
POD_FIELDS = [each for each in FIELDS if each.kind == "pods" and each.place is not Place.STATUS]
STATUSES = {"gpujobs": gpu_job(), "gpuensembles": ensemble(member("a")), "gpuprofiles": None}
_STATUS_VALUES: Mapping[str, dict[str, Any]] = {
    "impossible times": {"queue": {"waitingSince": "0000-13-45T99:99:99Z"}},
    "oldest": {"queue": {"waitingSince": "0001-01-01T00:00:00Z", "position": 1}},
    "other's facts": {"podAnnotation": '{"v":1}', "sampleCount": 9},
    "ended": {"phase": "Succeeded"},
}
LONG = "250 kB"
BY_STATUS = ("huge", "other's")
_number = itertools.count()


@dataclass(frozen=True, slots=True)
class Write:
    """One attempt.

    Attributes:
        value: what was written, in words.
        moment: when, in words.
    """

    field: str
    value: str
    moment: str
    accepted: bool
    message: str


@dataclass(slots=True)
class HostileUser:
    """The user, with its own pods of which each is at another moment of its life.

    Attributes:
        copied: annotations of a pod of another user.
        pods: names of its pods, by moment.
    """

    server: ApiServer
    copied: Mapping[str, str]
    pods: Mapping[str, str]
    user: User = field(default_factory=lambda: User("mallory"))

    def attack(self) -> Iterator[Write]:
        """Write each value into each field at each moment."""
        for each in POD_FIELDS:
            for title, value in self._values(each):
                yield from self._pod_writes(each, title, value)
        for kind in STATUSES:
            yield from self._status_writes(kind)
        yield from self._other_writes()
        yield from self.forge_measurement()

    def _values(self, of: Field) -> Iterator[tuple[str, str | None]]:
        if of.place is Place.LABEL:
            yield from {"empty": "", "other's": "large-1", "long": "x" * 63, "none": None}.items()
            return
        yield "none", None
        yield "huge negative number", "-" + "9" * 400
        yield "empty", ""
        yield "other's", self.copied.get(of.name, self.copied[names.GPUS_ANNOTATION])
        yield LONG, "x" * 250_000
        yield "wrong type", '[null, 1e999, {"v": []}]'
        # It stays. This is a valid record of a measurement, of a pod with a million CPUs before.
        yield "huge", self._huge_measurement().dump()

    def _huge_measurement(self) -> ProfilingState:
        most = CpuAmounts(request=1_000_000_000, limit=1_000_000_000)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        times = {"started": now, "since": now}
        cpus = {"original": most, "last": most, "target": most, "most_milli_cpu": most.limit}
        return ProfilingState(uid=self.pods["uid"], container="main", **cpus, **times)

    def _pod_writes(self, of: Field, title: str, value: str | None) -> Iterator[Write]:
        key = "labels" if of.place is Place.LABEL else "annotations"
        change = {"metadata": {key: {of.name: value}}}
        for moment, name in self.pods.items():
            if moment == "uid":
                continue
            if title == LONG and moment != "bound":
                continue  # megabytes: once for each field is enough
            for subresource in ("", "/status") if title in BY_STATUS else ("",):
                path = f"{OWN_PODS}/{name}{subresource}"
                response = self.server.merge(path, change, self.user)
                yield _write(of.name, title, moment, response)
        if value is not None:
            body = waiting_pod(f"made-{next(_number)}")
            body["metadata"][key] = {of.name: value}
            if of.name == names.RESOURCES_MODE_ANNOTATION:
                body["metadata"]["labels"] = {names.TUNED_LABEL: "true"}
            response = self.server.create(OWN_PODS, body, self.user)
            yield _write(of.name, title, "created", response)

    def _status_writes(self, kind: str) -> Iterator[Write]:
        path = f"{OWN_KINDS}/{kind}/own/status"
        for title, status in _STATUS_VALUES.items():
            response = self.server.merge(path, {"status": status}, self.user)
            yield _write(f"{kind}/status", title, "any", response)

    def forge_measurement(self) -> Iterator[Write]:
        """Request a measurement of the running pod, with a record in which it had all CPUs.

        The request is valid again, because the operator ignores the record beside an invalid one.
        """
        measured = dict.fromkeys((names.STEPS_SOURCE_ANNOTATION, names.STEPS_METRICS_ANNOTATION))
        measured |= {names.PROFILING_ANNOTATION: "CPUs", names.PROFILING_SECONDS_ANNOTATION: "3600"}
        measured |= {names.PROFILE_ANNOTATION: "own"}
        path = f"{OWN_PODS}/running"
        assert self.server.merge(path, {"metadata": {"annotations": measured}}, self.user).accepted
        forged = {names.PROFILING_STATE_ANNOTATION: self._huge_measurement().dump()}
        response = self.server.merge(path, {"metadata": {"annotations": forged}}, self.user)
        yield _write(names.PROFILING_STATE_ANNOTATION, "huge", "running", response)

    def _other_writes(self) -> Iterator[Write]:
        node = {"metadata": {"annotations": {names.ENSEMBLE_NODE_ANNOTATION: "node-0"}}}
        response = self.server.merge(f"{OWN_KINDS}/gpujobs/own", node, self.user)
        yield _write(names.ENSEMBLE_NODE_ANNOTATION, "other's", "any", response)
        for path, name in (
            ("/apis/gputopo.io/v1alpha1/gputopologies/node-0/status", "gputopologies/status"),
            ("/api/v1/nodes/node-0", names.GPUS_RESET_ANNOTATION),
            (f"{PODS}/placed", names.GPUS_ANNOTATION),
        ):
            change = {"metadata": {"annotations": {name: "x"}}, "status": {}}
            yield _write(name, "other's", "any", self.server.merge(path, change, self.user))


def _write(name: str, value: str, moment: str, response: ApiResponse) -> Write:
    return Write(name, value, moment, response.accepted, response.message)


def prepare(server: ApiServer) -> User:
    """Create the user, who also has rights that the role ``edit`` lacks, and its objects."""
    user = put_user(server, "mallory", NAMESPACE)
    add_rights(server, "mallory", NAMESPACE, "", "pods/status")
    for kind, body in STATUSES.items():
        add_rights(server, "mallory", NAMESPACE, "gputopo.io", f"{kind}/status")
        profile = {"apiVersion": names.API_VERSION, "kind": "GPUProfile", "spec": {}}
        made = {**(body or profile), "metadata": {"name": "own"}}
        response = server.create(f"{OWN_KINDS}/{kind}", made, user)
        assert response.accepted, response.message
    return user


def waiting_pod(name: str) -> dict[str, Any]:
    """Return a pod that fits on no node."""
    resources = {"limits": {names.RESOURCE: "1"}}
    spec = {
        "schedulerName": names.SCHEDULER_NAME,
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": {"kubernetes.io/hostname": "nowhere"},
        "containers": [{"name": "main", "image": "busybox", "resources": resources}],
    }
    return {"metadata": {"name": name}, "spec": spec}


def outcome_table(writes: list[Write]) -> str:
    """Return a Markdown table of what the API server did with the writes, by fields and moment."""
    moments = ("created", "waiting", "bound", "running", "any")
    fields: dict[str, dict[str, list[Write]]] = defaultdict(lambda: defaultdict(list))
    for each in writes:
        fields[each.field.removeprefix(f"{names.GROUP}/")][each.moment].append(each)
    rows: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, by_moment in fields.items():
        rows[tuple(_outcome(by_moment[moment]) for moment in moments)].append(f"`{name}`")
    head = ("fields", *moments[:-1], "other objects")
    lines = [" | ".join((", ".join(sorted(row)), *cells)) for cells, row in sorted(rows.items())]
    return "".join(f"| {line} |\n" for line in (" | ".join(head), *lines)).replace(
        " |\n", f" |\n|{'---|' * len(head)}\n", 1
    )


def _outcome(writes: list[Write]) -> str:
    """Return an outcome in words. To remove a field that is not set is no change."""
    accepted = {each.accepted for each in writes if each.value != "none"}
    words = {(): "", (True,): "accepted", (False,): "rejected"}
    return words.get(tuple(accepted), "accepted if valid")
