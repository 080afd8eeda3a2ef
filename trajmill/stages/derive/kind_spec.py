"""What the specs of all kinds of derived data have in common."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Callable

    from trajmill.schemas.observation import Observation, ScreenReader
    from trajmill.stages.derive.base import Deriver
    from trajmill.stages.derive.collected import Maker
    from trajmill.stages.derive.planning.task_sources import TaskSources
    from trajmill.stages.derive.prompt_files import DerivePrompts
    from trajmill.stages.models.base import ChatModel


class Tools(NamedTuple):
    """What a deriver works with."""

    maker: Maker
    screens: ScreenReader
    keep_screen: Callable[[Observation], object]
    """Stores a screen that the deriver has made of others."""
    prompts: DerivePrompts
    writer: ChatModel | None = None
    """The language model of `derive.writer`; None if it is embedded."""
    describer: ChatModel | None = None
    """The vision-language model of `derive.describer`; None if it is embedded."""
    of_tasks: TaskSources | None = None
    """For a kind that derives from tasks: what else is known about them."""


class KindSpec(Spec):
    """A kind of derived data: `[derive.KIND]`."""

    name: ClassVar[str]
    """The kind."""
    version: ClassVar[str] = "1"
    """Rises when the deriver makes other rows of the same input."""
    once_per_screen: ClassVar[bool] = False
    """Whether it derives from screens; one that several steps show is then used once in a round."""
    once_per_task: ClassVar[bool] = False
    """Whether it derives from the successes of a task in a round together."""
    with_calls: ClassVar[bool] = False
    """Whether it derives from what roles of agents were asked and said."""
    roles: ClassVar[tuple[str, ...]] = ()
    """The models that it can ask: `writer`, `describer`."""
    needs: ClassVar[tuple[str, ...]] = ()
    """Those of them that it cannot do without."""
    prompts: ClassVar[tuple[str, ...]] = ()
    """The prompts that it asks them with, as keys of `[derive.prompts]`."""

    def refuse_without(self, models: dict[str, str], embedded: str) -> None:
        """Check that every model that is needed has an endpoint.

        Args:
            models: name of the endpoint by role.
            embedded: the name that stands for no model.

        Raises:
            BadInputError: one is embedded; the message says which key to set.
        """
        for role in self.needs:
            if models[role] == embedded:
                raise BadInputError(
                    f"derive {self.name} asks a model: set derive.{role} to the NAME of an [endpoints.NAME]"
                )

    @abstractmethod
    def open(self, tools: Tools) -> Deriver:
        """What derives the rows."""
