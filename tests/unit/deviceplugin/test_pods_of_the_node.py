import pytest

from gputopo_deviceplugin.pods import Ask, record_of


@pytest.mark.parametrize("quantity", ["1k", "2M", "1Ki", "1e3", "9" * 5000])
def test_more_gpus_than_a_plain_number_says_are_asked_for_and_no_reason_to_fail(
    quantity: str,
) -> None:
    document = {
        "metadata": {"uid": "u", "namespace": "x", "name": "greedy"},
        "spec": {
            "containers": [
                {"name": "main", "resources": {"limits": {"gputopo.io/gpu": quantity}}},
                {"name": "other", "resources": {"limits": {"gputopo.io/gpu": "2"}}},
            ]
        },
    }
    assert record_of(document, "gputopo.io/gpu").asks == (Ask("main", 1000), Ask("other", 2))
