"""The specs of the kinds that train roles of agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from trajmill.schemas.spec import Fraction
from trajmill.stages.derive.kind_spec import KindSpec, Tools

if TYPE_CHECKING:
    from trajmill.stages.derive.base import Deriver


class RolesSpec(KindSpec):
    """What the roles of agents said in accepted trajectories: `trajmill derive roles`."""

    name: ClassVar[str] = "roles"
    with_calls: ClassVar[bool] = True

    only: tuple[str, ...] = ()
    """The roles that rows are made for, e.g. `manager`; all if empty."""

    def open(self, tools: Tools) -> Deriver:
        """What derives the rows."""
        from trajmill.stages.derive.roles.role_rows import RoleRows

        return RoleRows(self, tools.maker)


class CesDataSpec(KindSpec):
    """Rows that warm up a Coordinator and a State Tracker, from any agent's trajectories: `trajmill derive ces`."""

    name: ClassVar[str] = "ces"
    version: ClassVar[str] = "3"

    def open(self, tools: Tools) -> Deriver:
        """What derives the rows."""
        from trajmill.stages.derive.roles.ces_rows import CesRows

        return CesRows(tools.maker)


class CodaDataSpec(KindSpec):
    """What Planners thought in clean successes, for a generalist: `trajmill derive coda`."""

    name: ClassVar[str] = "coda"
    with_calls: ClassVar[bool] = True

    def open(self, tools: Tools) -> Deriver:
        """What derives the rows."""
        from trajmill.stages.derive.roles.coda_rows import CodaRows

        return CodaRows(tools.maker)


class RftDataSpec(KindSpec):
    """Candidates of T-RFT that a process reward lets through: `trajmill derive rft`."""

    name: ClassVar[str] = "rft"
    version: ClassVar[str] = "2"

    least_reward: Fraction = 0.8
    """Least process reward of a candidate: the mean score of its steps, where GOOD is 1, NEUTRAL 0.5, HARMFUL 0."""

    def open(self, tools: Tools) -> Deriver:
        """What derives the rows."""
        from trajmill.stages.derive.roles.rft_rows import RftRows

        return RftRows(self, tools.maker, tools.screens)
