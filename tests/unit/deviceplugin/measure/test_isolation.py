import asyncio

import pytest

from gputopo_deviceplugin.measure.isolation import run_isolated
from support.virtual_time import runner


def test_an_error_in_measuring_does_not_end_the_agent(caplog: pytest.LogCaptureFixture) -> None:
    starts: list[float] = []
    failures: list[str] = []

    async def fail() -> None:
        starts.append(asyncio.get_running_loop().time())
        await asyncio.sleep(10)
        raise ZeroDivisionError

    async def scenario() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(25):
                await run_isolated(fail, failures.append)

    with runner() as loop:
        loop.run(scenario())
    assert [start - starts[0] for start in starts] == [0, 11, 22]
    assert failures == ["measure", "measure"]
    assert "ZeroDivisionError" in caplog.text
