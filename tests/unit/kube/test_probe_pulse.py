from gputopo_kube.probes import LATE_SECONDS, Pulse


def test_an_event_loop_that_does_not_move_is_not_alive() -> None:
    now = [100.0]
    pulse = Pulse(clock=lambda: now[0])
    now[0] += LATE_SECONDS - 1
    assert pulse.alive
    pulse.beat()
    now[0] += LATE_SECONDS - 1
    assert pulse.alive
    now[0] += 1
    assert not pulse.alive
