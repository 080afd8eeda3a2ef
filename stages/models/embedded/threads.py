"""How many threads torch uses for the embedded networks."""

from __future__ import annotations

import torch


def use_one_thread() -> None:
    """Let torch compute on one core in this process.

    The embedded networks are so small that more threads make them slower. With one thread, sums do not depend on the
    number of cores.
    """
    torch.set_num_threads(1)
