"""The base of the specs of layouts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.spec import Spec
from trajmill.stages.importing.base import ReadRecording


class LayoutSpec(Spec):
    """A published layout of trajectories."""

    @abstractmethod
    def lists(self, folder: Path) -> Sequence[Path]:
        """The files that list the recordings of a folder, sorted; empty if the folder has another layout."""

    @abstractmethod
    def read(self, file: Path, folder: Path) -> Iterator[ReadRecording]:
        """The recordings of one of these files, one at a time; a bad one is given as such and ends nothing."""

    @abstractmethod
    def expected(self) -> str:
        """What a folder of this layout contains, for a message."""

    def checked_lists(self, folder: Path) -> Sequence[Path]:
        """The files that list the recordings.

        Raises:
            BadInputError: there are none; the message says what was expected.
        """
        files = self.lists(folder) if folder.is_dir() else ()
        if not files:
            raise BadInputError(f"{folder}: nothing to import: expected {self.expected()}")
        return files
