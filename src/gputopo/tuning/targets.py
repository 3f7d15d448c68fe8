"""Decides which CPUs and memory each tuned pod of a node shall have now."""

from collections.abc import Mapping
from typing import Final

from gputopo.sizing.marginal import marginal
from gputopo.sizing.model import SizingMechanism
from gputopo.sizing.tune import tune
from gputopo.tuning.allocate import allocate
from gputopo.tuning.hysteresis import worthwhile
from gputopo.tuning.model import Target, TunedNode
from gputopo.tuning.pods import left_alone_because
from gputopo.tuning.reasons import reason_for
from gputopo.tuning.sized import sized_node

MECHANISMS: Final[Mapping[str, SizingMechanism]] = {"marginal": marginal, "tune": tune}
"""Rules that divide the spare CPUs and memory of a node, by the name in the settings."""


def targets(node: TunedNode, mechanism: SizingMechanism = marginal) -> dict[str, Target]:
    """Return the target of each pod of the node, by UID.

    - The targets, the other pods and the accepted pending pods together fit on the node. If not
      even the floors fit, each pod has its floor.
    - No pod gets less than its floor. No pod is predicted to be slower than with its proportional
      share; only in the 60 s after its last resize, it may lack less than 5 % of its amounts.
    - A pod that gputopo does not resize now keeps its requests.
    - The order of the pods does not matter. When all pods have their targets and nothing else has
      changed, the function returns the same targets again.
    """
    sized = sized_node(node)
    chosen = worthwhile(sized, allocate(sized.spare, sized.pods, mechanism))
    result = {
        pod.uid: Target(pod.spec.request, f"unchanged: {why}")
        for pod in node.pods
        if (why := left_alone_because(pod))
    }
    pods = {pod.uid: pod for pod in node.pods}
    for each in sized.pods:
        amounts = chosen[each.uid]
        reason = reason_for(pods[each.uid], each, sized, amounts)
        result[each.uid] = Target(amounts, reason, each.value(amounts))
    return result
