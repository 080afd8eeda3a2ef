from __future__ import annotations

import logging

import pytest

from trajmill.flows.cli.app import show_own_warnings


def test_what_the_program_warns_of_is_a_line_on_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.getLogger("trajmill"), "handlers", [])
    show_own_warnings()
    logging.getLogger("trajmill.pipelines.engine.watch").warning("stage %s: it is started again", "rollout")
    logging.getLogger("trajmill.pipelines.engine.watch").info("nobody asked for this")
    logging.getLogger("a.library").warning("nor for this")
    assert capsys.readouterr().err == "stage rollout: it is started again\n"
