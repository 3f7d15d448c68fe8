"""The closed sets of words of the API, in CamelCase as Kubernetes writes them."""

from enum import StrEnum


class PatternKind(StrEnum):
    """How the GPUs of one job talk to each other (MAPA, section 3.1).

    RING joins each rank with the next and the last with the first; TREE is a balanced binary
    tree; RING_TREE is both; CHAIN is a path, as of pipeline stages; STAR joins rank 0 with all
    others, as a parameter server; ALL_TO_ALL joins all; CUSTOM joins what the user lists.
    """

    RING = "Ring"
    TREE = "Tree"
    RING_TREE = "RingTree"
    CHAIN = "Chain"
    STAR = "Star"
    ALL_TO_ALL = "AllToAll"
    CUSTOM = "Custom"


class Sensitivity(StrEnum):
    """Whether a job gains from bandwidth between its GPUs (MAPA, section 2.3)."""

    SENSITIVE = "Sensitive"
    INSENSITIVE = "Insensitive"
    AUTO = "Auto"


class PolicyName(StrEnum):
    """Which rule chooses among the GPU sets of a node (MAPA, section 4).

    BASELINE: lowest indices. TOPO_AWARE: nearest on PCIe. GREEDY: most aggregate bandwidth.
    PRESERVE: best links for jobs that need them, kept whole by those that do not.
    """

    BASELINE = "Baseline"
    TOPO_AWARE = "TopoAware"
    GREEDY = "Greedy"
    PRESERVE = "Preserve"


class LinkKind(StrEnum):
    """What carries the traffic of a pair of GPUs: the best link between them."""

    NVLINK = "NVLink"
    NVSWITCH = "NVSwitch"
    PCIE = "PCIe"


class Ancestor(StrEnum):
    """Nearest common ancestor of two GPUs on PCIe, as ``nvidia-smi topo -m`` names it.

    INTERNAL is one board; PIX one switch; PXB several switches; PHB one host
    bridge; NODE one NUMA node; SYS crosses sockets.
    """

    INTERNAL = "INTERNAL"
    PIX = "PIX"
    PXB = "PXB"
    PHB = "PHB"
    NODE = "NODE"
    SYS = "SYS"
