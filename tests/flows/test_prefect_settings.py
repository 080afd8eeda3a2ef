import os
import signal
import socket
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import cast

import pytest
from prefect.settings import PREFECT_API_URL, PREFECT_HOME, temporary_settings

from trajmill.flows import evolve
from trajmill.flows.cli import app as cli
from trajmill.flows.cli.app import run
from trajmill.flows.configuration.config import Config
from trajmill.flows.interrupt import asked_to_stop, noticing_interrupts, still_noticing_interrupts
from trajmill.flows.prefect_settings import long_lived_server, names_a_server
from trajmill.flows.stage import RoundContext
from trajmill.schemas.errors import TrajmillError
from trajmill.warehouse.store.base import LeaseLostError

pytestmark = pytest.mark.slow


def test_a_named_server_is_used_and_stays(prefect_server: Path) -> None:
    assert names_a_server()
    address = os.environ["PREFECT_API_URL"]
    with long_lived_server(1) as used:
        assert used == address
    assert os.environ["PREFECT_API_URL"] == address


def test_a_home_that_cannot_be_written_gives_one_error_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    line = r"\A[^\n]+home, the folder of Prefect, cannot be written [^\n]+ PREFECT_HOME [^\n]+\Z"
    home = temporary_settings({PREFECT_HOME: tmp_path / "file" / "home"}, restore_defaults={PREFECT_API_URL})
    with home, pytest.raises(TrajmillError, match=line), long_lived_server(1):
        raise AssertionError("no server can have started")


def test_a_named_server_that_does_not_answer_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    address = "http://127.0.0.1:1/api"
    with temporary_settings({PREFECT_API_URL: address}):
        assert run(["evolve"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"the Prefect server {address} does not answer")


def test_a_taken_port_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, temporary_settings(restore_defaults={PREFECT_API_URL}):
        port = other.getsockname()[1]
        with pytest.raises(TrajmillError, match=f"port {port} is taken"), long_lived_server(port):
            raise AssertionError("no server can have started")


class TakenError(Exception):
    """Somebody else got the signal."""


def take(number: int, frame: FrameType | None) -> None:
    raise TakenError


def test_a_signal_is_noticed_where_somebody_else_has_taken_it_meanwhile() -> None:
    with noticing_interrupts() as asked:
        noticed = signal.signal(signal.SIGTERM, take)
        with still_noticing_interrupts(), pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        assert asked_to_stop() and asked.number == signal.SIGTERM
        with pytest.raises(TakenError):
            signal.raise_signal(signal.SIGTERM)
        signal.signal(signal.SIGTERM, noticed)


def test_an_error_by_sigterm_is_known_to_be_its(prefect_server: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def swallowed(*arguments: object) -> str:
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt:
            raise RuntimeError("a worker failed") from None
        return ""

    for name in ("adopt_configured", "rolled_out_ahead"):
        monkeypatch.setattr(evolve, name, lambda context: None)
    monkeypatch.setattr(evolve, "do_stages", swallowed)
    with noticing_interrupts() as asked, pytest.raises(RuntimeError, match="a worker failed"):
        evolve.round_flow(cast(RoundContext, SimpleNamespace(round=1, config=Config())))
    assert asked.number == signal.SIGTERM


def test_a_lost_lease_is_told_as_itself(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def lost(**arguments: object) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise LeaseLostError("its lease expired; run the same command again") from None

    monkeypatch.setattr(cli, "app", lost)
    assert cli.run([]) == 1
    assert capsys.readouterr().err == "its lease expired; run the same command again\n"
