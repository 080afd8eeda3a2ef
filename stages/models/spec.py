"""What the specs of all kinds of models have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field, PositiveInt

from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.dialects.families import Family, family_named
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.geometry import Size
from trajmill.schemas.spec import OPERATIONAL, Spec
from trajmill.stages.models.context_budget import ContextBudget, budget_of

if TYPE_CHECKING:
    from trajmill.stages.models.base import ChatModel
    from trajmill.stages.models.wrapped.accounting import Accounting


def _known_family(name: str) -> str:
    try:
        return family_named(name).name
    except BadInputError as error:
        raise ValueError(str(error)) from None


class ModelSpec(Spec):
    """A model that roles can be mapped to: `[endpoints.NAME]`."""

    family: Annotated[str, AfterValidator(_known_family)] = "any"
    """`qwen2.5-vl`, `qwen3-vl`, `gui-owl`, `gui-owl-1.5`, `ui-tars` or `any`. Decides how a policy is spoken to and
    read: system message, layout of the messages, names of actions, sizes of images, coordinates (see models.md);
    `any`: as the embedded policy, with images as they are."""
    max_pixels: PositiveInt = 3_211_264
    """Most pixels of an image as it is sent."""
    context_tokens: Annotated[int, Field(ge=4096)] = 32_000
    """Longest request with its answer that the model takes. Critics are shown as much of a trajectory as three quarters
    of it hold, and are told what was left out."""
    max_images: Annotated[int, Field(ge=2)] = 24
    """Most images in one request: as many as the server allows, e.g. by vLLM's `--limit-mm-per-prompt`."""
    max_in_flight: Annotated[PositiveInt, OPERATIONAL] = 64
    """Most requests under way at once; fewer when a server says that it is busy."""
    cache: Annotated[bool, OPERATIONAL] = True
    """Whether answers are kept and found again by the request; those of a sampled policy never are."""

    @property
    @abstractmethod
    def version(self) -> str:
        """The version of the model that stands on its rows.

        Raises:
            BadInputError: its folder holds no model.
        """

    @property
    def vision_family(self) -> Family:
        """The family, with pictures of at most `max_pixels` pixels."""
        return family_named(self.family).within(self.max_pixels)

    @property
    def context_budget(self) -> ContextBudget:
        """Most that a critic shows the model in one request."""
        return budget_of(self.context_tokens, self.max_images)

    def frame(self, screen: Size) -> CoordinateFrame:
        """How positions in the model's texts relate to a screen.

        Raises:
            ModelFailure: no picture of the screen fits its pixel budget.
        """
        return self.vision_family.frame(screen)

    @abstractmethod
    def connect(self, variables: Mapping[str, str]) -> ChatModel:
        """The model itself.

        Args:
            variables: environment variables, among which a kind looks for its key.

        Raises:
            BadInputError: the variable of the key is not set, or the model cannot be loaded.
        """

    def open(
        self,
        variables: Mapping[str, str],
        request_cache: Path | None = None,
        accounting: Accounting | None = None,
    ) -> ChatModel:
        """The model, with kept answers and a row for each call where these are asked for.

        Args:
            variables: environment variables, among which a kind looks for its key.
            request_cache: folder of kept answers; None asks again for everything.
            accounting: who gets the rows of its calls; None makes none.

        Raises:
            BadInputError: the variable of the key is not set, the model cannot be loaded, or the folder is no cache.
        """
        model = self.connect(variables)
        if self.cache and request_cache is not None:
            from trajmill.stages.models.wrapped.request_cache import CachedModel

            model = CachedModel(model, request_cache)
        if accounting is not None:
            from trajmill.stages.models.wrapped.accounting import AccountedModel

            model = AccountedModel(model, *accounting)
        return model
