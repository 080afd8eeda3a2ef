"""A network for machines of which each has a namespace of its own, and can be cut off.

A switch, which is a bridge in a namespace, joins them with the namespace of this process. All of it ends with the
processes in the namespaces, so nothing is left behind. Only root can make it.
"""

from __future__ import annotations

import ipaddress
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

NAMESPACE = ("unshare", "--net")
"""What stands before a command that gets a namespace of its own."""
_TEST_ADDRESSES = ipaddress.ip_network("198.18.0.0/15")
"""Reserved for tests of networks (RFC 2544)."""
_BITS = 3
"""Of the addresses of one network, which has six."""
_SWITCH = "ip link add name switch0 type bridge && ip link set switch0 up && echo ready && exec cat"


class NoNetworkError(Exception):
    """No network can be made here; the message says why."""


class Network:
    """A switch, and the numbered links between it and its machines. This process has number 0."""

    def __init__(self, switch: int) -> None:
        """Link this process to the switch in the namespace of another."""
        self.switch = switch
        place = os.getpid() % (_TEST_ADDRESSES.num_addresses >> _BITS)
        first = int(_TEST_ADDRESSES.network_address) + (place << _BITS)
        self.addresses = [str(each) for each in ipaddress.ip_network((first, 32 - _BITS)).hosts()]
        """Of each machine, by its number."""
        Link(self, 0).make(os.getpid(), f"tm{os.getpid()}")


class Link:
    """The link of a machine to the switch."""

    def __init__(self, network: Network, number: int) -> None:
        self._network, self._port = network, f"port{number}"
        self.address = network.addresses[number]

    def make(self, process: int, name: str = "eth0") -> None:
        """Give the namespace of a process an interface with the address, and plug it into the switch."""
        peer = ("peer", "name", self._port, "netns", str(self._network.switch))
        _ip(process, "link", "add", "name", name, "type", "veth", *peer)
        _ip(process, "address", "add", f"{self.address}/{32 - _BITS}", "dev", name)
        for interface in ("lo", name):
            _ip(process, "link", "set", interface, "up")
        _ip(self._network.switch, "link", "set", self._port, "master", "switch0")
        self.set_state("up")

    def set_state(self, state: str) -> None:
        """Take the link down, so that nothing passes and nobody is told, or up again."""
        _ip(self._network.switch, "link", "set", self._port, state)


@contextmanager
def network() -> Iterator[Network]:
    """Make a network.

    Raises:
        NoNetworkError: none can be made here.
    """
    with ExitStack() as running:
        try:
            made = Network(running.enter_context(_switch()))
        except subprocess.CalledProcessError as error:
            raise NoNetworkError(f"{' '.join(error.cmd)}: {error.stderr.strip()}") from error
        except OSError as error:
            raise NoNetworkError(f"{error.filename}: {error.strerror}") from error
        # What is tested may not go through a proxy of this machine's.
        running.enter_context(pytest.MonkeyPatch.context()).setenv("no_proxy", ",".join(made.addresses))
        yield made


@contextmanager
def network_if_possible() -> Iterator[Network | None]:
    """Make a network; None where that cannot be."""
    with ExitStack() as running:
        try:
            made = running.enter_context(network())
        except NoNetworkError:
            made = None
        yield made


@contextmanager
def _switch() -> Iterator[int]:
    """A process in a namespace with a bridge; it ends with this one, which holds its input."""
    command, pipe = [*NAMESPACE, "sh", "-c", _SWITCH], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        if not process.stdout.readline():
            raise subprocess.CalledProcessError(1, NAMESPACE, stderr=process.stderr.read())
        yield process.pid


def _ip(process: int, *words: str) -> None:
    """Run `ip` in the namespace of a process."""
    command = ("nsenter", "--net", "--target", str(process), "ip", *words)
    subprocess.run(command, check=True, capture_output=True, text=True)
