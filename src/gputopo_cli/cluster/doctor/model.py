"""The objects of a cluster that the checks read, and the findings that they return."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from gputopo.errors import GputopoError
from gputopo_kube.document import Document

_MAX_NAMES: Final = 5


class ObjectKind(StrEnum):
    """A kind of object that ``doctor`` reads from a cluster.

    An object of ``KUBELETS`` has the ``name`` of a node with GPUs, and either kubelet's active
    configuration (``kubeletconfig``) or, if kubelet did not return it, the reason (``error``).
    ``SERVER`` is the API server's version.
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
    QUOTAS = "resourcequotas"
    KUBELETS = "nodes/proxy"
    SERVER = "version"


class NotCheckedError(GputopoError):
    """An object that a check needs could not be read; the message has the reason."""


@dataclass(frozen=True, slots=True)
class CheckedCluster:
    """The objects of a cluster at one moment.

    Attributes:
        documents: the objects, by kind.
        unread: for each kind that is not in ``documents``, why it could not be read.
        now: time at which the objects were read, with a time zone.
        version: version of this program.
    """

    documents: Mapping[ObjectKind, Sequence[Document]]
    unread: Mapping[ObjectKind, str]
    now: datetime
    version: str

    def __getitem__(self, kind: ObjectKind) -> Sequence[Document]:
        if kind in self.unread:
            raise NotCheckedError(self.unread[kind])
        return self.documents[kind]


class Severity(StrEnum):
    """Error: pods get no or wrong GPUs, or GPU states are unknown. Warning: this may happen."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem that a check has found.

    Attributes:
        object: kind and name, with the namespace if it has one.
        problem: a description. A repeated check returns the same text for the same problem.
        todo: the remedy, as a command if there is one.
    """

    severity: Severity
    object: str
    problem: str
    todo: str


def error(object_: str, problem: str, todo: str) -> Finding:
    """Return a finding of severity ``ERROR``."""
    return Finding(Severity.ERROR, object_, problem, todo)


def warning(object_: str, problem: str, todo: str) -> Finding:
    """Return a finding of severity ``WARNING``."""
    return Finding(Severity.WARNING, object_, problem, todo)


def join_names(names: Sequence[str]) -> str:
    """Return the first five names, and the number of further names.

    >>> join_names(["n1", "n2"]), join_names(list("abcdefg"))
    ('n1, n2', 'a, b, c, d, e and 2 more')
    """
    more = len(names) - _MAX_NAMES
    few = ", ".join(names[:_MAX_NAMES])
    return f"{few} and {more} more" if more > 0 else few


def object_name(kind: str, document: Document) -> str:
    """Return kind and name of an object for a finding.

    >>> object_name("Pod", {"metadata": {"namespace": "default", "name": "train"}})
    'Pod default/train'
    """
    metadata = document["metadata"]
    space = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{kind} {space}{metadata['name']}"
