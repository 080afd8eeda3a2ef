"""A D-Bus connection that makes many calls at the same time, each with a deadline."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from jeepney import DBusAddress, HeaderFields, Message, MessageType, new_method_call
from jeepney.io.blocking import DBusConnection, open_dbus_connection

_IN_FLIGHT = 100


class BusCall(NamedTuple):
    """A method call on an object of another process."""

    owner: str
    path: str
    interface: str
    method: str
    signature: str = ""
    arguments: tuple[Any, ...] = ()

    def message(self) -> Message:
        """The call as a D-Bus message."""
        address = DBusAddress(self.path, bus_name=self.owner, interface=self.interface)
        return new_method_call(address, self.method, self.signature or None, self.arguments)


class Bus:
    """A connection to a D-Bus daemon."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._connection: DBusConnection = open_dbus_connection(bus=address)

    def ask(self, calls: Sequence[BusCall], seconds: float) -> list[tuple[Any, ...] | None]:
        """Make all calls and return their answers in order; None for an error.

        Raises:
            TimeoutError: not all answers came within `seconds`.
            OSError: the bus is gone.
        """
        deadline = time.monotonic() + seconds
        answers: list[tuple[Any, ...] | None] = [None] * len(calls)
        waiting: dict[int, int] = {}
        for place, call in enumerate(calls):
            if len(waiting) >= _IN_FLIGHT:
                self._receive(waiting, answers, deadline)
            serial = next(self._connection.outgoing_serial)
            waiting[serial] = place
            self._connection.send(call.message(), serial=serial)
        while waiting:
            self._receive(waiting, answers, deadline)
        return answers

    def ask_one(self, call: BusCall, seconds: float) -> tuple[Any, ...] | None:
        """Make one call; raises as `ask`."""
        return self.ask([call], seconds)[0]

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _receive(self, waiting: dict[int, int], answers: list[tuple[Any, ...] | None], deadline: float) -> None:
        reply = self._connection.receive(timeout=max(0.0, deadline - time.monotonic()))
        kind = reply.header.message_type
        if kind not in (MessageType.method_return, MessageType.error):
            return
        place = waiting.pop(_reply_serial(reply), None)
        if place is not None and kind is MessageType.method_return:
            answers[place] = reply.body


def _reply_serial(reply: Message) -> int:
    serial: int = reply.header.fields[HeaderFields.reply_serial]
    return serial
