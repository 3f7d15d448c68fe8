"""When the agent reads the policy of kubelet's CPU manager, with a kubelet that may start again."""

import asyncio
from collections.abc import Mapping
from typing import Any

from gputopo_deviceplugin.kubelet.state import KubeletState
from gputopo_deviceplugin.nri.manager import cpu_manager_reader
from gputopo_kube.changes import ChangeSignal
from gputopo_kube.kubelet_config import KubeletConfigError
from support.virtual_time import runner


class Kubelet:
    """A kubelet; ``policy`` is None if it does not respond."""

    def __init__(self) -> None:
        self.policy: str | None = "none"
        self.reads: list[float] = []
        self.state = KubeletState(ChangeSignal())
        self.reader = cpu_manager_reader(self.state, self.read, retry_seconds=30)

    def policy_read(self) -> str | None:
        return self.reader.value.policy

    async def read(self) -> Mapping[str, Any]:
        self.reads.append(asyncio.get_running_loop().time())
        if self.policy is None:
            raise KubeletConfigError("no response")
        return {"cpuManagerPolicy": self.policy}


async def test_the_policy_is_read_once_for_each_start_of_kubelet() -> None:
    kubelet = Kubelet()
    assert kubelet.policy_read() is None
    for _ in range(3):
        await kubelet.reader.update()
    assert (kubelet.policy_read(), len(kubelet.reads)) == ("none", 1)
    kubelet.policy = "static"
    kubelet.state.add_registration()
    await kubelet.reader.update()
    await kubelet.reader.update()
    assert (kubelet.policy_read(), len(kubelet.reads)) == ("static", 2)


def test_a_failed_read_is_repeated_more_and_more_rarely() -> None:
    kubelet = Kubelet()
    kubelet.policy = None

    async def wait() -> None:
        for _ in range(250):
            await kubelet.reader.update()
            await asyncio.sleep(1)
        assert kubelet.reader.value.unknown == "no response"
        assert [round(at) for at in kubelet.reads] == [0, 30, 90, 210]
        kubelet.policy = "none"
        kubelet.state.add_registration()
        await kubelet.reader.update()
        assert kubelet.reader.value.policy == "none"

    with runner() as loop:
        loop.run(wait())
