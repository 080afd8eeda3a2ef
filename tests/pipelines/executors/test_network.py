"""The network of the tests: machines reach each other over it alone, until one is cut off."""

from __future__ import annotations

import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from tests.pipelines.executors.network import NAMESPACE, Link, NoNetworkError, network

pytestmark = pytest.mark.slow

_SERVE = (
    "import http.server, sys\n"
    "server = http.server.HTTPServer(('', 0), http.server.SimpleHTTPRequestHandler)\n"
    "print(server.server_port, flush=True)\n"
    "server.serve_forever()"
)


@pytest.fixture
def link() -> Iterator[Link]:
    try:
        with network() as made:
            yield Link(made, 1)
    except NoNetworkError as error:
        pytest.skip(f"no network namespaces can be made here: {error}")


def test_a_machine_is_reached_until_it_is_cut_off_and_again_when_it_is_back(link: Link) -> None:
    with subprocess.Popen([*NAMESPACE, sys.executable, "-c", _SERVE], stdout=subprocess.PIPE) as machine:
        try:
            assert machine.stdout is not None
            url = f"http://{link.address}:{int(machine.stdout.readline())}/"
            link.make(machine.pid)
            assert urllib.request.urlopen(url).status == 200
            link.set_state("down")
            with pytest.raises(urllib.error.URLError):
                urllib.request.urlopen(url, timeout=0.2)
            link.set_state("up")
            assert urllib.request.urlopen(url).status == 200
        finally:
            machine.kill()
