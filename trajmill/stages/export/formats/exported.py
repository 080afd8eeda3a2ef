"""The steps that an exported folder is made of, and its contents."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from trajmill.stages.export.formats.rows.rl_step_example import RLStepExample
from trajmill.stages.export.formats.rows.spoken_step import LeftOutStep
from trajmill.stages.export.formats.rows.step_example import StepExample
from trajmill.stages.export.formats.rows.written import WrittenRows
from trajmill.stages.export.formats.tally import RLTally, Tally


class ReleaseSteps(NamedTuple):
    """The steps of a release in a family's dialect."""

    supervised: Iterable[StepExample | LeftOutStep]
    rl: Iterable[RLStepExample | LeftOutStep] = ()
    """The RL steps; only formats for RL read them."""


class ExportedFolder(NamedTuple):
    """The contents of an exported folder."""

    written: WrittenRows
    tally: Tally
    rl_written: WrittenRows
    """The RL steps; a supervised format writes none."""
    rl_tally: RLTally

    @property
    def repeated_rows(self) -> int:
        """Rows beside the first one of each step."""
        return self.written.rows - self.tally.examples
