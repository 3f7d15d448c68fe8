"""A job that declares nothing is placed by what hardware counters showed of its first run.

The training job lets the simulated driver of its node count bytes on the NVLinks between its GPUs,
in the rank order that gputopo chose. The bytes are so few that slow links cannot matter.
"""

from collections.abc import Iterator

import pytest

from counted import GPUS, MB_PER_S, PROFILE, Counted
from gputopo.api.known_facts import parse_facts
from gputopo.api.names import PATTERN_ANNOTATION, SENSITIVITY_ANNOTATION
from gputopo.api.profile import CommunicationFact
from gputopo.sensitivity.resolve import SENSITIVE_FROM_PERCENT
from learning import LEARN_SECONDS, Learning
from learntest import laws
from sandbox import Sandbox
from showcase.kubectl import wait_for
from support.cli.command_line import Done, process

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def counters(counted: Counted) -> Iterator[Counted]:
    """The job, which leaves its node at the end of this module."""
    yield counted
    counted.remove()


def test_second_run_is_placed_by_the_facts_of_the_first(counters: Counted) -> None:
    learning, (first, second) = counters.learning, counters.runs
    box = learning.box
    placement = learning.placement_of(first.name)
    assert (placement.pattern, placement.pattern_fact) == ("Ring", None)
    assert (placement.sensitive, placement.reason) == (True, "SensitivityUnknown")

    fact = wait_for("counters show the workload", lambda: _known(learning), timeout_s=LEARN_SECONDS)
    print(fact)
    assert (fact.pattern, fact.source) == ("Chain", "NVLinkPairs")
    # A chain of 3 has 2 edges, so a GPU sends 4/3 of the bytes of one end on average.
    per_step = 4 / 3 * MB_PER_S * 1e6 * laws.STEP_SECONDS
    assert fact.bytes_per_step == pytest.approx(per_step, rel=0.1)

    box.kubectl.run("delete", "gpujob", "-n", box.namespace, "--wait=true", first.name)
    learning.start(second)
    placement = learning.placement_of(second.name)
    assert placement.pattern == "Chain"
    assert placement.pattern_fact is not None
    assert placement.pattern_fact.startswith(f"GPUProfile {PROFILE}: Chain, seen in ")
    assert (placement.sensitive, placement.reason) == (False, "Profile")
    assert placement.fact is not None
    assert " % slower on the worst links by counters" in placement.fact

    annotations = learning.pod_of(second.name)["metadata"]["annotations"]
    facts = parse_facts(annotations)
    assert facts is not None
    assert (facts.source, facts.patterns[GPUS].kind) == ("Counters", "Chain")
    assert PATTERN_ANNOTATION not in annotations
    assert annotations[SENSITIVITY_ANNOTATION] == "Auto"
    explained = gputopo(box, "explain", f"gpujob/{second.name}", "-n", box.namespace)
    print(explained.out)
    assert placement.pattern_fact in explained.out


def gputopo(box: Sandbox, *words: str) -> Done:
    return process(*words, KUBECONFIG=str(box.kubectl.kubeconfig))


def _known(learning: Learning) -> CommunicationFact | None:
    """Return the fact when the pattern and a low limit of the slowdown are known."""
    facts = learning.status_of(PROFILE).facts
    found = (
        next((each for each in facts.communication if each.gpus == GPUS), None) if facts else None
    )
    if found is None or found.pattern == "Unknown" or found.slowdown_high_percent is None:
        return None
    return found if found.slowdown_high_percent < SENSITIVE_FROM_PERCENT else None


def test_counters_of_the_node_are_named(counters: Counted, dgx1: str) -> None:
    box = counters.learning.box
    done = gputopo(box, "profile", "show", f"{box.namespace}/{PROFILE}")
    print(done.out)
    assert "Chain" in done.out
    assert any(line.split()[:2] == [dgx1, "NVLink"] for line in done.out.splitlines())
