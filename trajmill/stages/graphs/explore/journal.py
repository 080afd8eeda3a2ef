"""The journal of an exploration; the next call resumes from it, also after a kill."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TextIO

from pydantic import ValidationError

from trajmill.schemas.errors import BadInputError
from trajmill.stages.graphs.base import AppGraph
from trajmill.stages.graphs.explore.base import Trial, WalkedScreen


class Tried(NamedTuple):
    trial: Trial
    before: WalkedScreen
    after: WalkedScreen | None


class ExploreJournal:
    """One file: the app in the first line, then each new screen and each trial in a line of its own."""

    def __init__(self, path: Path, app: AppGraph) -> None:
        self._path, self._app = path, app
        self._screens: dict[str, WalkedScreen] = {}
        self._file: TextIO | None = None

    def read(self) -> tuple[Tried, ...]:
        """What was tried so far; a line that was cut off when the process ended is dropped.

        Raises BadInputError if the file belongs to another app or start state, or is damaged.
        """
        if not self._path.exists():
            return ()
        *whole, cut_off = self._path.read_text(encoding="utf-8").split("\n")
        if cut_off:
            self._path.write_text("".join(f"{line}\n" for line in whole), encoding="utf-8")
        if whole and json.loads(whole[0]) != _app_line(self._app):
            raise BadInputError(f"{self._path}: it belongs to another app or start state; delete it to start over")
        return tuple(self._tried(whole[1:]))

    def open(self) -> None:
        """Begin to append. Raises BadInputError if another process appends to it."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = not self._path.exists() or not self._path.stat().st_size
        self._file = self._path.open("a", encoding="utf-8")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise BadInputError(f"{self._path}: another process explores this app; wait for it, or stop it") from error
        if new:
            self._write(_app_line(self._app))

    def add(self, tried: Tried) -> None:
        """Append a trial; it is on disk when this returns."""
        for screen in (tried.before, tried.after):
            if screen is not None and screen.screen_id not in self._screens:
                self._screens[screen.screen_id] = screen
                self._write({"screen": screen.model_dump(mode="json")})
        self._write({"trial": tried.trial.model_dump(mode="json", exclude_defaults=True)})
        assert self._file is not None, "the journal is open"
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _write(self, line: object) -> None:
        assert self._file is not None, "the journal is open"
        self._file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")

    def _tried(self, lines: list[str]) -> Iterator[Tried]:
        for number, line in enumerate(lines, 2):
            try:
                entry = json.loads(line)
                if "screen" in entry:
                    screen = WalkedScreen.model_validate(entry["screen"])
                    self._screens[screen.screen_id] = screen
                else:
                    trial = Trial.model_validate(entry["trial"])
                    yield Tried(trial, self._screens[trial.before], self._screens[trial.after] if trial.after else None)
            except (ValueError, KeyError, TypeError, ValidationError) as error:
                text = f"{self._path}:{number}: no entry of an exploration; delete the file to begin anew"
                raise BadInputError(text) from error


def _app_line(app: AppGraph) -> dict[str, object]:
    return {"app": app.app, "start_state": app.start_state, "opening": [step.model_dump() for step in app.opening]}
