"""A tenant: an account with the role edit in its own namespace, and nothing else."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from soaktest import namespace
from soaktest.client import Client, RejectedError

_ACCOUNT: Final = "tenant"
_REMOVE_SECONDS: Final = 600.0
"""A hostile tenant leaves hundreds of objects."""

_MISSED: Final = frozenset({404, 409})


@dataclass(slots=True)
class Replies:
    """What the API server replied to the writes of one attack.

    Attributes:
        accepted: number of accepted writes.
        rejected: messages, with the number of writes that got them.
    """

    accepted: int = 0
    rejected: Counter[str] = field(default_factory=Counter)

    def send(self, write: Callable[[], object]) -> bool:
        """Send a write, and return whether it was accepted.

        A write that came too late or too early, as for an object that does not exist, is no reply.
        """
        try:
            write()
        except RejectedError as error:
            if error.status not in _MISSED:
                self.rejected[str(error)] += 1
            return False
        self.accepted += 1
        return True

    def is_attempted(self, named: str) -> bool:
        """Return whether a write was accepted, or rejected with a message that names the field."""
        return self.accepted > 0 or any(named in message for message in self.rejected)

    def __str__(self) -> str:
        """Return the numbers, and each message once."""
        return "; ".join(
            [
                f"{self.accepted} writes accepted, {self.rejected.total()} rejected",
                *self.rejected,
            ]
        )


@dataclass(frozen=True, slots=True)
class Tenant:
    """The rights of a tenant.

    Attributes:
        client: sends requests with these rights.
    """

    client: Client
    namespace: str

    @property
    def pods(self) -> str:
        """Path of its pods."""
        return f"/api/v1/namespaces/{self.namespace}/pods"

    @property
    def events(self) -> str:
        """Path of its events."""
        return f"/api/v1/namespaces/{self.namespace}/events"

    def custom(self, kind: str) -> str:
        """Return the path of its objects of a kind of gputopo, for example ``gpujobs``."""
        return f"/apis/gputopo.io/v1alpha1/namespaces/{self.namespace}/{kind}"

    def annotate(self, pod: str, annotations: Mapping[str, str | None]) -> None:
        """Set annotations of a pod; None removes one.

        Raises:
            RejectedError: the API server rejects them.
        """
        self.client.patch(f"{self.pods}/{pod}", {"metadata": {"annotations": dict(annotations)}})

    def pod(self, name: str) -> dict[str, Any]:
        """Return a pod."""
        return self.client.get(f"{self.pods}/{name}")

    def log(self, pod: str) -> str:
        """Return the output of a pod; empty while there is none."""
        try:
            return self.client.text(f"{self.pods}/{pod}/log")
        except RejectedError:
            return ""


@contextmanager
def tenant_in(admin: Client, name: str, *, most_pods: int | None = None) -> Iterator[Tenant]:
    """Create the namespace ``name`` with a tenant, and remove it at the end.

    Args:
        admin: with the rights of the administrator.
        name: of the namespace.
        most_pods: the namespace's quota of pods; None for no quota.
    """
    namespace.create(admin, name)
    try:
        _create_account(admin, name)
        if most_pods is not None:
            quota = {"metadata": {"name": "pods"}, "spec": {"hard": {"pods": str(most_pods)}}}
            admin.create(f"/api/v1/namespaces/{name}/resourcequotas", quota)
        with admin.impersonating(f"system:serviceaccount:{name}:{_ACCOUNT}") as client:
            yield Tenant(client, name)
    finally:
        namespace.remove(admin, name, timeout_s=_REMOVE_SECONDS)


def _create_account(admin: Client, name: str) -> None:
    admin.create(f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": _ACCOUNT}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    account = {"kind": "ServiceAccount", "name": _ACCOUNT, "namespace": name}
    admin.create(
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{name}/rolebindings",
        {"metadata": {"name": _ACCOUNT}, "roleRef": role, "subjects": [account]},
    )
