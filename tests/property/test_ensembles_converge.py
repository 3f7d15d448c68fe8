"""Random lives of ensembles: whatever happens, each member trains, and none of them twice at once.

The events are those of a cluster: members end and fail, nodes are switched off, other pods take
GPUs, rates are wrong, users suspend the ensemble and delete jobs, and the operator is killed
between any two writes.
"""

from collections import Counter
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gputopo.api.names import JOB_LABEL
from support.operator.ensembles import EnsembleCluster, ensemble, member
from support.property_settings import LONG

NODES = {"n1": 4, "n2": 4, "n3": 2}
NAMES = "abcde"
ENDED = {"Succeeded", "Failed"}

_rates = st.sampled_from(
    [{1: 100, 2: 190, 4: 360}, {1: 24, 2: 47, 4: 92}, {2: 60, 4: 110}, {1: 50}, {}]
)
_names = st.sampled_from(NAMES)
_nodes = st.sampled_from(sorted(NODES))
_round = st.tuples(st.just("round"), st.none())
_event = st.one_of(
    _round,
    _round,
    _round,
    st.tuples(st.just("decide"), st.integers(0, 6)),
    st.tuples(st.just("work"), st.none()),
    st.tuples(st.just("wait"), st.integers(1, 60)),
    st.tuples(st.just("end"), _names),
    st.tuples(st.just("fail"), _names),
    st.tuples(st.just("crash"), _names),
    st.tuples(st.just("delete"), _names),
    st.tuples(st.just("off"), _nodes),
    st.tuples(st.just("on"), _nodes),
    st.tuples(st.just("others"), st.tuples(_nodes, st.integers(0, 4))),
    st.tuples(st.just("measure"), st.tuples(_names, st.integers(1, 400))),
    st.tuples(st.just("suspend"), st.booleans()),
)


@st.composite
def clusters(draw: st.DrawFn) -> EnsembleCluster:
    members = [
        member(name, draw(_rates), **draw(st.sampled_from([{}, {"steps": 5000}]))) for name in NAMES
    ]
    spec = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "maxGPUs": st.integers(2, 10),
                "restarts": st.just("FromCheckpoint"),
                "pace": st.just("End"),
            },
        )
    )
    return EnsembleCluster(dict(NODES), ensemble(*members, **spec))


def happen(cluster: EnsembleCluster, kind: str, value: Any) -> None:
    match kind:
        case "decide":
            cluster.decide(value)
        case "round":
            cluster.decide()
            cluster.work()
            cluster.now += timedelta(seconds=20)
        case "work":
            cluster.work()
        case "wait":
            cluster.now += timedelta(seconds=value)
            cluster.stale.clear()
        case "off":
            cluster.switch_off(value)
        case "on":
            cluster.switch_on(value)
        case "measure":
            cluster.measured |= dict([value])
        case _:
            change(cluster, kind, value)


def change(cluster: EnsembleCluster, kind: str, value: Any) -> None:
    job = cluster.jobs.get(f"search-{value}")
    if kind == "others":
        node, gpus = value
        most = cluster.free(node) + cluster.others.get(node, 0)
        cluster.others[node] = max(0, min(gpus, most))
    elif kind == "suspend":
        cluster.suspend(suspended=value)
    elif job is not None and kind == "delete":
        job["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    elif kind == "crash" and value in cluster.working():
        cluster.crash(value)
    elif kind in {"end", "fail"} and value in cluster.working():
        cluster.end(value, succeeded=kind == "end")


def check(cluster: EnsembleCluster) -> None:
    bound = [pod for pod in cluster.pods.values() if pod["spec"].get("nodeName")]
    pods = Counter(pod["metadata"]["labels"][JOB_LABEL] for pod in bound)
    assert not pods or max(pods.values()) == 1, "no member runs twice at once"
    most = cluster.raw["spec"].get("maxGPUs", sum(NODES.values()))
    live = [
        name for name, job in cluster.jobs.items() if "deletionTimestamp" not in job["metadata"]
    ]
    held = sum(gpus for name, (_, gpus) in cluster.running().items() if name in live)
    assert held <= most, "the ensemble uses no more GPUs than its limit"
    assert all(cluster.free(node) >= 0 for node in NODES)


def check_status(cluster: EnsembleCluster) -> None:
    """Check, when nothing changes any more, that the status has the GPUs of the GPUJobs."""
    for name, job in cluster.jobs.items():
        member = cluster.of(name.removeprefix("search-"))
        assert member["phase"] in ENDED or member["gpus"] == job["spec"]["gpusPerReplica"]


@settings(max_examples=2_000 if LONG else 30)
@given(clusters(), st.lists(_event, min_size=15, max_size=40))
def test_every_member_ends_and_none_runs_twice(
    cluster: EnsembleCluster, events: list[tuple[str, Any]]
) -> None:
    for kind, value in events:
        happen(cluster, kind, value)
        check(cluster)
    for node in NODES:
        cluster.switch_on(node)
        cluster.others[node] = 0
    cluster.stale.clear()
    cluster.suspend(suspended=False)
    for _ in range(4 * len(NAMES)):
        cluster.run_on(60)
        check(cluster)
        check_status(cluster)
        if cluster.status["phase"] in ENDED:
            break
        for name in cluster.working():
            cluster.end(name)
    assert cluster.status["phase"] in ENDED, cluster.status
    failed = {name for kind, name in events if kind == "fail"}
    for name, phase in cluster.phases().items():
        assert phase == "Succeeded" or name in failed
        assert cluster.starts[f"search-{name}"], "every member was trained"
