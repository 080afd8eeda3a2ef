from __future__ import annotations

import logging
import os

import pytest

from trajmill.flows.cli.app import give_memory_back, show_own_warnings


def test_what_the_program_warns_of_is_a_line_on_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.getLogger("trajmill"), "handlers", [])
    show_own_warnings()
    logging.getLogger("trajmill.pipelines.executors.watch").warning("stage %s: it is started again", "rollout")
    logging.getLogger("trajmill.pipelines.executors.watch").info("nobody asked for this")
    logging.getLogger("a.library").warning("nor for this")
    assert capsys.readouterr().err == "stage rollout: it is started again\n"


def test_arrow_gives_memory_back_unless_the_user_chose_an_allocator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    assert _environment_after({}, monkeypatch) == {"ARROW_DEFAULT_MEMORY_POOL": "jemalloc"}
    chosen = {"ARROW_DEFAULT_MEMORY_POOL": "system"}
    assert _environment_after(chosen, monkeypatch) == chosen
    monkeypatch.setattr("sys.platform", "darwin")
    assert _environment_after({}, monkeypatch) == {}


def _environment_after(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    changed = dict(environment)
    monkeypatch.setattr(os, "environ", changed)
    give_memory_back()
    return changed
