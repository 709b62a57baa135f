"""The lease clock: seconds that also count while the machine sleeps. Deadlines of leases are compared with this clock only.

`time.monotonic` stops in suspend on Linux and macOS, so a laptop that slept past its ttl would believe that it still holds.
"""

from __future__ import annotations

import sys
import time

if sys.platform == "linux":

    def _read() -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

elif sys.platform == "darwin":

    def _read() -> float:
        return time.clock_gettime(time.CLOCK_MONOTONIC_RAW)

else:

    def _read() -> float:
        return time.monotonic()


class LeaseClock:
    """Reads the clock. Tests add jumps to it, as a suspended machine would."""

    def __init__(self) -> None:
        self.jump_s = 0.0

    def now(self) -> float:
        return _read() + self.jump_s


CLOCK = LeaseClock()
