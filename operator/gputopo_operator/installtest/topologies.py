"""Check what the agents have found on their nodes."""

from collections.abc import Sequence
from typing import Final

from gputopo.api.names import READY_CONDITION
from gputopo_kube.document import Document
from gputopo_operator.installtest.verdict import InstallCheck, InstallVerdict

_NAME: Final = "topologies"
_MAX_NAMES: Final = 3


def judge_topologies(topologies: Sequence[Document]) -> InstallCheck:
    """Return whether at least one node offers GPUs, or no node has GPUs.

    A node that is not ready is no failure as long as another node is ready: the agent of a node
    with another device plugin is not ready on purpose.
    """
    if not topologies:
        text = (
            "no agent has found GPUs; if nodes have GPUs, see NVML on real nodes in"
            " docs/start/install.md"
        )
        return InstallCheck(_NAME, InstallVerdict.SKIPPED, text)
    problems = [
        f"{each['metadata']['name']}: {text}" for each in topologies if (text := _why(each))
    ]
    ready = len(topologies) - len(problems)
    gpus = [gpu for each in topologies for gpu in (each.get("status") or {}).get("gpus") or ()]
    healthy = sum(gpu.get("healthy") is True for gpu in gpus)
    found = f"{len(topologies)} nodes with {len(gpus)} GPUs, {healthy} of them healthy"
    if problems:
        more = len(problems) - _MAX_NAMES
        text = "; ".join(problems[:_MAX_NAMES]) + (f"; and {more} more" if more > 0 else "")
        found += f"; {len(problems)} nodes are not ready: {text}"
    return InstallCheck(_NAME, InstallVerdict.PASSED if ready else InstallVerdict.FAILED, found)


def _why(topology: Document) -> str:
    """Return why the agent of a node offers no GPUs; empty if it offers them."""
    conditions = (topology.get("status") or {}).get("conditions") or ()
    for each in conditions:
        if each.get("type") == READY_CONDITION:
            ready = each.get("status") == "True"
            return "" if ready else f"{each.get('reason')}: {each.get('message')}"
    return "its agent has not written the status"
