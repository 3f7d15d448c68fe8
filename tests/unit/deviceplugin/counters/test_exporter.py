"""What DCGM's exporter returns, and how it is read."""

import pytest

from gputopo_deviceplugin.counters.exporter import ExporterRates, parse_exporter
from gputopo_deviceplugin.counters.faults import CounterError, FaultKind
from gputopo_deviceplugin.counters.scrape import SCRAPE_SECONDS, ExporterScraper
from gputopo_kube.endpoint import EndpointError

URL = "http://10.0.0.1:9400/metrics"
SECOND = 1_000_000
LABELS = 'gpu="0",UUID="{uuid}",device="nvidia0",modelName="Tesla V100",Hostname="n1"'


def line(metric: str, value: str, uuid: str = "GPU-0", more: str = "") -> str:
    return f"{metric}{{{LABELS.format(uuid=uuid)}{more}}} {value}\n"


TEXT = (
    "# HELP DCGM_FI_PROF_SM_OCCUPANCY The ratio of resident warps.\n"
    "# TYPE DCGM_FI_PROF_SM_OCCUPANCY gauge\n"
    + line("DCGM_FI_PROF_SM_OCCUPANCY", "0.251")
    + line("DCGM_FI_PROF_DRAM_ACTIVE", "0.5")
    + line("DCGM_FI_PROF_NVLINK_TX_BYTES", "1.5e9")
    + line("DCGM_FI_PROF_NVLINK_RX_BYTES", "250000")
    + line("DCGM_FI_DEV_GPU_TEMP", "41")
    + line("DCGM_FI_PROF_SM_OCCUPANCY_RATIO", "0.75", "GPU-1", ',container="main"')
)


def test_the_metrics_of_each_gpu_are_found_by_its_uuid() -> None:
    assert parse_exporter(TEXT.encode(), 5, 9) == {
        "GPU-0": ExporterRates(0.251, 0.5, 1.5e9, 250_000.0, 5, 9),
        "GPU-1": ExporterRates(0.75, None, None, None, 5, 9),
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        line("DCGM_FI_PROF_SM_OCCUPANCY", "much"),
        line("DCGM_FI_PROF_SM_OCCUPANCY", "0.5", more=',GPU_I_ID="1",GPU_I_PROFILE="1g.5gb"'),
        'DCGM_FI_PROF_SM_OCCUPANCY{gpu="0"} 0.5\n',
        "DCGM_FI_PROF_SM_OCCUPANCY 0.5\n",
        'DCGM_FI_PROF_SM_OCCUPANCY{UUID="GPU-0"\n} 0.5\n',
        "DCGM_FI_PROF_SM_OCCUPANCY{" + 'a="' * 100_000,
    ],
)
def test_lines_that_describe_no_whole_gpu_are_ignored(text: str) -> None:
    assert parse_exporter(text.encode(), 0, 1) == {}


class Exporter:
    """An exporter.

    Attributes:
        text: the response, or the error.
        urls: the requests.
    """

    def __init__(self) -> None:
        self.text: bytes | EndpointError = TEXT.encode()
        self.urls: list[str] = []

    async def read(self, url: str) -> bytes:
        self.urls.append(url)
        if isinstance(self.text, EndpointError):
            raise self.text
        return self.text


class Clock:
    """Microseconds since 1970."""

    us = 100 * SECOND

    def __call__(self) -> int:
        return self.us


async def test_without_a_url_nothing_is_read() -> None:
    exporter = Exporter()
    found = await ExporterScraper(exporter, "").scrape(0)
    assert isinstance(found, CounterError)
    assert found.kind is FaultKind.UNSUPPORTED
    assert "devicePlugin.counters.dcgmExporter" in str(found)
    assert exporter.urls == []


async def test_the_exporter_is_read_every_few_seconds() -> None:
    exporter, clock = Exporter(), Clock()
    scraper = ExporterScraper(exporter, URL, clock)
    first = await scraper.scrape(0)
    assert await scraper.scrape(SCRAPE_SECONDS - 0.1) is first
    clock.us += 7 * SECOND
    second = await scraper.scrape(SCRAPE_SECONDS)
    assert exporter.urls == [URL, URL]
    assert not isinstance(first, CounterError)
    assert not isinstance(second, CounterError)
    assert first["GPU-0"][-2:] == (95 * SECOND, 100 * SECOND)
    assert second["GPU-0"][-2:] == (100 * SECOND, 107 * SECOND)


async def test_an_exporter_that_fails_is_a_fault_until_it_works() -> None:
    exporter, clock = Exporter(), Clock()
    scraper = ExporterScraper(exporter, URL, clock)
    exporter.text = EndpointError(f"{URL}: no response within 2 s")
    found = await scraper.scrape(0)
    assert isinstance(found, CounterError)
    assert (found.kind, str(found)) == (FaultKind.FAILED, f"{URL}: no response within 2 s")
    exporter.text = TEXT.encode()
    assert not isinstance(await scraper.scrape(SCRAPE_SECONDS), CounterError)
