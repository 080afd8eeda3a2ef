"""Sets the number of threads that torch uses for the embedded networks."""

from __future__ import annotations

import torch


def use_one_thread() -> None:
    """Make torch compute on one core in this process.

    More threads would make the small embedded networks slower. With one thread, sums do not depend on the number of
    cores.
    """
    torch.set_num_threads(1)
