"""Reads and writes the Lease that stores the claims on GPUs.

The claim fence calls this module. A claim is a reservation of GPUs for one pod. An annotation of
the Lease has the claims of all extenders.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gputopo_cluster.claims import CLAIMS_LEASE, Claim, ClaimsError, format_claims, parse_claims
from gputopo_kube.client import AsyncApi
from gputopo_kube.resources import LeaseDocument


@dataclass(frozen=True, slots=True)
class StoredClaims:
    """The claims in the Lease.

    Attributes:
        version: resource version of the Lease, or None if the Lease does not exist yet.
    """

    claims: tuple[Claim, ...]
    version: str | None


class ClaimLease:
    """Reads and writes the claims in the Lease."""

    def __init__(self, api: AsyncApi, namespace: str) -> None:
        """Use the Lease in ``namespace``."""
        self._api = api
        self._namespace = namespace

    async def read_claims(self) -> StoredClaims:
        """Return the current claims.

        Raises:
            ApiError: if the Lease could not be read.
            ClaimsError: if the claims cannot be parsed. Then the extender must not give GPUs to any
                pod.
        """
        lease = await self._api.find(LeaseDocument, CLAIMS_LEASE, self._namespace)
        if lease is None:
            return StoredClaims((), None)
        try:
            claims = parse_claims(lease["metadata"].get("annotations") or {})
        except ClaimsError as error:
            raise ClaimsError(f"Lease {self._namespace}/{CLAIMS_LEASE}: {error}") from None
        return StoredClaims(claims, str(lease["metadata"]["resourceVersion"]))

    async def write_claims(self, claims: Iterable[Claim], *, version: str | None) -> str:
        """Replace the claims if the Lease still has ``version``; return the new version.

        Raises:
            ConflictError, NotFoundError: the Lease no longer has that version.
            UnavailableError: the claims may have been written.
        """
        metadata: dict[str, Any] = {"name": CLAIMS_LEASE, "annotations": format_claims(claims)}
        if version is None:
            metadata["namespace"] = self._namespace
            lease = await self._api.create(LeaseDocument, {"metadata": metadata})
        else:
            metadata["resourceVersion"] = version
            lease = await self._api.patch(
                LeaseDocument, CLAIMS_LEASE, {"metadata": metadata}, self._namespace
            )
        return str(lease["metadata"]["resourceVersion"])
