import pytest

from gputopo_deviceplugin.gpus.xids import is_critical, is_fatal


@pytest.mark.parametrize("xid", [13, 31, 43, 45, 68])
def test_application_xids_do_not_make_a_gpu_unhealthy(xid: int) -> None:
    assert not is_critical(xid)
    assert not is_fatal(xid)


@pytest.mark.parametrize("xid", [63, 69, 74, 92, 94, 109, 144, 150, 154, 100_000])
def test_xids_that_need_no_reset_make_a_gpu_unhealthy_for_a_time(xid: int) -> None:
    assert is_critical(xid)
    assert not is_fatal(xid)


RESET_GPU = [46, 62, 64, 95, 110, 119, 120, 136, 140, 143, 155, 156, 158]


@pytest.mark.parametrize("xid", [48, 79, 151, *RESET_GPU])
def test_xids_that_need_a_reset_or_a_reboot_are_fatal(xid: int) -> None:
    assert is_critical(xid)
    assert is_fatal(xid)
