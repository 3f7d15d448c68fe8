from gputopo_kube.probes import LATE_SECONDS, Pulse


def test_an_event_loop_that_does_not_run_is_not_alive() -> None:
    now = [100.0]
    pulse = Pulse(clock=lambda: now[0])
    now[0] += LATE_SECONDS - 1
    assert pulse.failure is None
    pulse.beat()
    now[0] += LATE_SECONDS - 1
    assert pulse.failure is None
    now[0] += 1
    assert pulse.failure == "the event loop has not run for 30 s"


def test_a_hanging_call_is_not_alive_until_it_returns() -> None:
    pulse = Pulse()
    pulse.report_hang("NVML hangs")
    assert pulse.failure == "NVML hangs"
    pulse.report_hang(None)
    assert pulse.failure is None
