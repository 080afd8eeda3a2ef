"""How many requests one server gets at a time: additive increase, multiplicative decrease, as TCP does it."""

from __future__ import annotations


class CongestionWindow:
    """The largest number of requests in flight at one server."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = float(most)
        self._epoch = 0

    @property
    def size(self) -> int:
        """Requests allowed at a time, at least one."""
        return int(self._size)

    @property
    def epoch(self) -> int:
        """How often the window shrank. A request keeps the epoch in which it was sent."""
        return self._epoch

    def shrink(self, epoch: int) -> None:
        """Halve the window, because a request sent in `epoch` found the server busy.

        Requests that were in flight together fail together; only the first of them shrinks the window.
        """
        if epoch == self._epoch:
            self._size = max(1.0, self._size / 2)
            self._epoch += 1

    def grow(self) -> None:
        """Note that one request was answered: a whole window of answers lets one more request in."""
        self._size = min(float(self._most), self._size + 1 / self._size)
