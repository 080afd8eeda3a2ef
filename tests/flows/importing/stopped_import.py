"""An import that stands still, in a process of its own, so that it can be killed there."""

import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Literal

from trajmill.flows.configuration.config import Config
from trajmill.flows.importing.import_folder import import_folder
from trajmill.stages.importing.agentnet import AgentNetLayout
from trajmill.stages.importing.base import ReadRecording, layout_spec


class StoppedLayout(AgentNetLayout):
    """Reads two recordings of each file and no more."""

    kind: Literal["agentnet"] = "agentnet"

    def read(self, file: Path, folder: Path) -> Iterator[ReadRecording]:
        """The first two recordings of a file."""
        yield from islice(super().read(file, folder), 2)
        time.sleep(600)


def import_and_stop(config: Config, folder: Path) -> None:
    """Import a folder up to its third recording."""
    import_folder(config, StoppedLayout(), folder)


def import_whole(config: Config, folder: Path) -> None:
    """Import a folder, which stands still where its judge does not answer."""
    import_folder(config, layout_spec("agentnet"), folder)
