"""Starts BrowserGym environments."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE
from importlib.util import find_spec
from pathlib import Path

from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.stages.environments.browser.launch import EXECUTABLE
from trajmill.stages.environments.browsergym.environment import BrowserGymEnvironment
from trajmill.stages.environments.miniwob.pages import pages_folder

_LONGEST_ANSWER = 64 * 2**20
_PLAYER = "trajmill.stages.environments.browsergym.player"


class BrowserGymFactory:
    """Starts one player process, with a browser of its own, for each environment."""

    async def __call__(self) -> BrowserGymEnvironment:
        """Start a player; the first reset starts its browser.

        Raises:
            EnvironmentFailure: BrowserGym or Chromium is not installed (class `setup`).
        """
        _refuse_missing_package()
        browser = shutil.which(EXECUTABLE)
        if browser is None:
            raise EnvironmentFailure(f"{EXECUTABLE} is not installed; run `make system-deps`", FailureClass.SETUP)
        folder = Path(tempfile.mkdtemp(prefix="trajmill-browsergym-"))
        try:
            player = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # a module of the user's in the working folder never takes the place of ours
                "-m",
                _PLAYER,
                browser,
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                limit=_LONGEST_ANSWER,
                env=os.environ | {"TMPDIR": str(folder)},
                start_new_session=True,
            )
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return BrowserGymEnvironment(player, folder, _defaults())

    async def close(self) -> None:
        """Do nothing: environments share nothing."""


def _refuse_missing_package() -> None:
    try:
        found = find_spec("browsergym.core")
    except ModuleNotFoundError:
        found = None
    if found is None:
        words = "browsergym-core is not installed; run `pip install 'trajmill[browsergym]'`"
        raise EnvironmentFailure(words, FailureClass.SETUP)


def _defaults() -> dict[str, dict[str, object]]:
    """Arguments that point MiniWoB++ tasks to the pages of the `miniwob` wheel, if it is installed."""
    if find_spec("miniwob") is None:
        return {}
    return {"miniwob": {"base_url": f"{pages_folder().as_uri()}/"}}
