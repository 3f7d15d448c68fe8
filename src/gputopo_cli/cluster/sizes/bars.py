"""Draw the CPUs of a pod as a line of characters."""

from typing import Final

WIDTH: Final = 32
LEGEND: Final = "= floor, + above the floor, | share of its GPUs"


def draw_bar(now: int, floor: int, share: int | None, capacity: int) -> str:
    """Return a bar whose full width is ``capacity``; all amounts are thousandths of a CPU.

    >>> draw_bar(now=6000, floor=1000, share=2000, capacity=8000)
    '====+++|++++++++++++++++........'
    """
    full = max(capacity, now, 1)

    def at(milli_cpu: int) -> int:
        return min(WIDTH, round(WIDTH * milli_cpu / full))

    solid = at(min(floor, now))
    bar = "=" * solid + "+" * (at(now) - solid)
    bar = bar.ljust(WIDTH, ".")
    if share is None:
        return bar
    mark = max(0, at(share) - 1)
    return f"{bar[:mark]}|{bar[mark + 1 :]}"
