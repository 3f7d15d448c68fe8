"""Send the requests of the test, and return its checks."""

import asyncio
from collections.abc import Sequence
from typing import Final

from gputopo_kube.endpoint import EndpointClient, EndpointError
from gputopo_kube.errors import ApiError, RejectedError
from gputopo_kube.sync import SyncApi
from gputopo_operator.installtest import components, dryruns
from gputopo_operator.installtest.settings import InstallTestSettings
from gputopo_operator.installtest.topologies import judge_topologies
from gputopo_operator.installtest.verdict import InstallCheck, InstallVerdict

_MAX_BYTES: Final = 64 * 1024
_AT_THE_SAME_TIME: Final = 50
_REVIEWS: Final = ("apis", "authorization.k8s.io", "v1", "selfsubjectaccessreviews")
_TOPOLOGIES: Final = ("apis", "gputopo.io", "v1alpha1", "gputopologies")


def run_checks(api: SyncApi, settings: InstallTestSettings) -> list[InstallCheck]:
    """Return the results of all checks.

    Raises:
        ApiError: the API server does not respond, or does not show the pods of the release.
    """
    return [
        *_check_components(api, settings),
        _check_topologies(api),
        *(
            _check_dry_run(api, settings.namespace, run)
            for run in dryruns.dry_runs(
                settings.namespace, settings.resource, settings.scheduler_name
            )
        ),
    ]


def _check_components(api: SyncApi, settings: InstallTestSettings) -> list[InstallCheck]:
    selector = f"app.kubernetes.io/part-of=gputopo,app.kubernetes.io/instance={settings.release}"
    pods = api.list("api", "v1", "namespaces", settings.namespace, "pods", selector=selector)
    found = components.probes(pods)
    urls = [probe.url for probe in found if not probe.problem]
    failures = asyncio.run(_call_all(urls, settings.timeout_seconds))
    return components.judge(found, failures, settings.scheduler_pods, settings.namespace)


async def _call_all(urls: Sequence[str], timeout_seconds: float) -> dict[str, str]:
    """Return the error of each URL that does not respond with status 200."""
    client = EndpointClient(timeout_seconds=timeout_seconds, max_bytes=_MAX_BYTES)
    slots = asyncio.Semaphore(_AT_THE_SAME_TIME)

    async def call(url: str) -> str:
        async with slots:
            try:
                await client.read(url)
            except EndpointError as error:
                return str(error)
        return ""

    return dict(zip(urls, await asyncio.gather(*map(call, urls)), strict=True))


def _check_topologies(api: SyncApi) -> InstallCheck:
    try:
        return judge_topologies(api.list(*_TOPOLOGIES))
    except RejectedError as error:
        return InstallCheck("topologies", InstallVerdict.FAILED, f"cannot be listed: {error}")


def _check_dry_run(api: SyncApi, namespace: str, run: dryruns.DryRun) -> InstallCheck:
    review = api.request("POST", _REVIEWS, dryruns.review(namespace, run))
    if not review["status"]["allowed"]:
        return dryruns.without_right(run)
    try:
        api.request("POST", run.path, run.body, query=dryruns.QUERY)
    except RejectedError as error:
        return dryruns.judge_dry_run(run, error.message)
    except ApiError as error:
        return InstallCheck(run.name, InstallVerdict.FAILED, str(error))
    return dryruns.judge_dry_run(run, "")
