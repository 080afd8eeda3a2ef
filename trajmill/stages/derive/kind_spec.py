"""The base of the specs of all kinds of derived data, and the inputs of their derivers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trajmill.schemas.episode import Episode
    from trajmill.schemas.observation import Observation, ScreenReader
    from trajmill.stages.agents.base import AgentModel
    from trajmill.stages.curate.leaks import NearLeaks
    from trajmill.stages.derive.collected import Deriver, Maker
    from trajmill.stages.models.base import ChatModel
    from trajmill.stages.models.prompts import Prompt


class GuidanceLift(NamedTuple):
    """Success at the queries of one task that were attempted with and without guidance in one round."""

    without: float
    guided: float

    @property
    def tells_nothing(self) -> bool:
        """Whether all attempts succeeded without guidance."""
        return self.without >= 1.0


class TaskSources(NamedTuple):
    """Further data on the tasks of a shard's trajectories."""

    others: Mapping[str, tuple[Episode, ...]]
    """By trajectory, further successes of its task or group, or branches."""
    lifts: Mapping[str, GuidanceLift]
    """By trajectory, the lift of guidance at its task; absent where no query was attempted in both ways."""
    leaks: NearLeaks
    """The held-out instructions."""


class Tools(NamedTuple):
    maker: Maker
    screens: ScreenReader
    keep_screen: Callable[[Observation], object]
    """Stores a screen that the deriver has made of others."""
    prompts: Mapping[str, Prompt]
    """By key of `[derive.prompts]`."""
    writer: ChatModel | None = None
    """The language model of `derive.writer`; None if it is embedded."""
    describer: ChatModel | None = None
    """The vision-language model of `derive.describer`; None if it is embedded."""
    policy: AgentModel | None = None
    """The policy in force, for a kind that samples it."""
    of_tasks: TaskSources | None = None
    """For a kind that derives from tasks, failures or branches."""


class KindSpec(Spec):
    """A kind of derived data; its settings are a table of `[derive]`."""

    name: ClassVar[str]
    version: ClassVar[str] = "1"
    """Increases when the same input gives other rows."""
    deriver: ClassVar[str] = ""
    """`module:class` that `open` makes of a spec and `Tools`; the module is imported then."""
    once_per_screen: ClassVar[bool] = False
    """Whether it derives from screens; one that several steps show is then used once in a round."""
    once_per_task: ClassVar[bool] = False
    """Whether it derives from the successes of a task in a round together."""
    once_per_failure: ClassVar[bool] = False
    """Whether it derives from failed attempts, each with a success at the same query in the round."""
    with_branches: ClassVar[bool] = False
    """Whether it also derives from the branches from a screen of an attempt, or from the screen of a branch."""
    with_calls: ClassVar[bool | Literal["critics"]] = False
    """Whether it derives from the model calls of agent roles, or of `critics`."""
    equal_words: ClassVar[int | None] = 3
    """Most rows of a release with the same messages on different screens; None for a kind that always asks the same."""
    trains_policy: ClassVar[bool] = True
    """Whether its rows are for a policy or a role of its agent; False for other models, as a judge."""
    roles: ClassVar[tuple[str, ...]] = ()
    """The models it can use: `writer`, `describer`, `policy`."""
    needs: ClassVar[tuple[str, ...]] = ()
    """Those of them that it requires."""
    prompts: ClassVar[tuple[str, ...]] = ()
    """The prompts of its models, as keys of `[derive.prompts]`."""

    def refuse_without(self, models: dict[str, str], embedded: str) -> None:
        """Check that every required model has an endpoint in `models`, which has names by role.

        Raises:
            BadInputError: one is `embedded`, which stands for no model; the message names the key to set.
        """
        for role in self.needs:
            if models[role] == embedded:
                raise BadInputError(
                    f"derive {self.name} asks a model: set derive.{role} to the NAME of an [endpoints.NAME]"
                )

    def open(self, tools: Tools) -> Deriver:
        module, _, name = self.deriver.partition(":")
        opened: Deriver = getattr(import_module(module), name)(self, tools)
        return opened
