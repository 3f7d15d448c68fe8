"""One Lease in the namespace of the installation keeps the claims on GPUs.

A Lease is the smallest object with a resource version that every cluster has; nothing but its
annotation is used.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import httpx2
from lightkube import AsyncClient
from lightkube.generic_resource import GenericNamespacedResource, create_api_info
from lightkube.types import PatchType

from gputopo_extender.cluster import RefusedError, in_time
from gputopo_extender.state.claim import Claim, ClaimsError, format_claims, parse_claims

_NAME: Final = "gputopo-claims"


class LeaseDocument(GenericNamespacedResource):
    """A Lease as a dict."""

    _api_info = create_api_info("coordination.k8s.io", "v1", "Lease", "leases")


@dataclass(frozen=True, slots=True)
class Claimed:
    """The claims as the API server has them.

    Attributes:
        version: of the Lease, None where there is none yet.
    """

    claims: tuple[Claim, ...]
    version: str | None


class Leases:
    """Reads and writes claims."""

    def __init__(self, client: AsyncClient, namespace: str, timeout_seconds: float) -> None:
        """Keep the Lease in ``namespace``; no call takes longer than the time-out."""
        self._client = client
        self._namespace = namespace
        self._timeout_seconds = timeout_seconds

    async def read(self) -> Claimed:
        """Return the claims as they are now.

        Raises:
            RefusedError, UnansweredError: where they could not be had.
            ClaimsError: where they cannot be read; nothing may be given away then.
        """
        try:
            async with in_time(self._timeout_seconds):
                lease = await self._client.get(LeaseDocument, _NAME, namespace=self._namespace)
        except RefusedError as error:
            if error.status == httpx2.codes.NOT_FOUND:
                return Claimed((), None)
            raise
        try:
            claims = parse_claims(lease["metadata"].get("annotations") or {})
        except ClaimsError as error:
            raise ClaimsError(f"Lease {self._namespace}/{_NAME}: {error}") from None
        return Claimed(claims, str(lease["metadata"]["resourceVersion"]))

    async def write(self, claims: Iterable[Claim], *, version: str | None) -> str:
        """Put these claims in the place of those of ``version``; return the new version.

        Raises:
            RefusedError: 409 or 404 where the Lease is not of that version any more.
            UnansweredError: where it may have been written.
        """
        metadata: dict[str, Any] = {"name": _NAME, "annotations": format_claims(claims)}
        async with in_time(self._timeout_seconds):
            if version is None:
                metadata |= {"namespace": self._namespace}
                lease = await self._client.create(LeaseDocument.from_dict({"metadata": metadata}))
            else:
                lease = await self._client.patch(
                    LeaseDocument,
                    _NAME,
                    {"metadata": {**metadata, "resourceVersion": version}},
                    namespace=self._namespace,
                    patch_type=PatchType.MERGE,
                )
        return str(lease["metadata"]["resourceVersion"])
