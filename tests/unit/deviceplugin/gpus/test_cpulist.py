import pytest

from gputopo_deviceplugin.gpus.cpulist import CpuListError, format_cpu_list, parse_cpu_list


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0-3,8\n", {0, 1, 2, 3, 8}),
        ("5", {5}),
        ("0-0", {0}),
        ("2,0-1", {0, 1, 2}),
        ("\n", set()),
        ("65535", {65535}),
    ],
)
def test_a_list_of_the_kernel_is_parsed(text: str, cpus: set[int]) -> None:
    assert parse_cpu_list(text) == cpus


@pytest.mark.parametrize("text", ["a", "1-", "3-1", "1,,2", "0-65536", "-1", "1:2", "0-3:1/2", "²"])
def test_another_text_is_rejected_with_the_part(text: str) -> None:
    with pytest.raises(CpuListError, match="is not a"):
        parse_cpu_list(text)


@pytest.mark.parametrize(
    ("cpus", "text"),
    [
        ({8, 3, 2, 1, 0}, "0-3,8"),
        ({0, 2, 4}, "0,2,4"),
        ({0, 1}, "0-1"),
        (set(), ""),
        ({7}, "7"),
    ],
)
def test_neighbouring_cpus_are_written_as_ranges(cpus: set[int], text: str) -> None:
    assert format_cpu_list(cpus) == text
    assert parse_cpu_list(text) == cpus
