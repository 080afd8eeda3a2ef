import signal
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import cast

import pytest

from trajmill.flows import evolve
from trajmill.flows.cli import app as cli
from trajmill.flows.configuration.config import Config
from trajmill.flows.interrupt import asked_to_stop, noticing_interrupts, still_noticing_interrupts
from trajmill.flows.stage import RoundContext
from trajmill.warehouse.store.base import LeaseLostError


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


def test_where_nobody_notices_signals_they_stay_with_whom_they_are() -> None:
    before = signal.signal(signal.SIGTERM, take)
    try:
        with still_noticing_interrupts(), pytest.raises(TakenError):
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.slow
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
