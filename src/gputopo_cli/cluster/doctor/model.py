"""The objects that the checks look at, and what a check says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from gputopo.errors import GputopoError
from gputopo_kube.document import Document

_MOST_NAMED: Final = 5


class Kind(StrEnum):
    """What is read of a cluster.

    ``KUBELETS`` holds for each node with GPUs its ``name``, and what kubelet answers, with the
    ``kubeletconfig`` in force, or why it was ``refused``; ``SERVER`` the API server's version.
    """

    TOPOLOGIES = "gputopologies"
    PODS = "pods"
    NODES = "nodes"
    CONFIG_MAPS = "configmaps"
    DEPLOYMENTS = "deployments"
    DAEMON_SETS = "daemonsets"
    DEFINITIONS = "customresourcedefinitions"
    POLICIES = "validatingadmissionpolicies"
    BINDINGS = "validatingadmissionpolicybindings"
    KUBELETS = "nodes/proxy"
    SERVER = "version"


class NotCheckedError(GputopoError):
    """What a check needs could not be read; the message says why."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A cluster as it was read.

    Attributes:
        documents: the objects, by kind.
        unread: why a kind could not be read; such a kind is not in ``documents``.
        now: when they were read, with a time zone.
        version: of this program.
    """

    documents: Mapping[Kind, Sequence[Document]]
    unread: Mapping[Kind, str]
    now: datetime
    version: str

    def __getitem__(self, kind: Kind) -> Sequence[Document]:
        if kind in self.unread:
            raise NotCheckedError(self.unread[kind])
        return self.documents[kind]


class Severity(StrEnum):
    """How bad it is: an error breaks placements, stops or hides them; a warning may."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        object: kind and name, with the namespace where it has one.
        problem: what is wrong with it, without figures that change by themselves.
        todo: what to do, a command where there is one.
    """

    severity: Severity
    object: str
    problem: str
    todo: str


def error(where: str, problem: str, todo: str) -> Finding:
    """Return a finding that breaks placements, stops or hides them."""
    return Finding(Severity.ERROR, where, problem, todo)


def warning(where: str, problem: str, todo: str) -> Finding:
    """Return a finding that may do harm."""
    return Finding(Severity.WARNING, where, problem, todo)


def named(names: Sequence[str]) -> str:
    """Return a few names, and how many more there are.

    >>> named(["n1", "n2"]), named(list("abcdefg"))
    ('n1, n2', 'a, b, c, d, e and 2 more')
    """
    more = len(names) - _MOST_NAMED
    few = ", ".join(names[:_MOST_NAMED])
    return f"{few} and {more} more" if more > 0 else few


def titled(kind: str, document: Document) -> str:
    """Return kind and name of an object, as findings name it.

    >>> titled("Pod", {"metadata": {"namespace": "default", "name": "train"}})
    'Pod default/train'
    """
    metadata = document["metadata"]
    space = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{kind} {space}{metadata['name']}"
