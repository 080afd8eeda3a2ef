"""The sections `[models]` and `[prompts]`: the endpoint of each role, and the user's prompt files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field

from trajmill.flows.configuration.tables import KeyPath
from trajmill.schemas.spec import OPERATIONAL, Spec

EMBEDDED = "embedded"
"""The endpoint that needs no configuration: the policy network, and code without a model for all other roles."""

POLICY_ROLE: KeyPath = ("models", "policy")
"""The role of the policy. Its model is no part of a run's identity, because it changes within a run."""

EndpointNames = Annotated[tuple[str, ...], Field(min_length=1)]


class CriticRoles(Spec):
    """The models that judge."""

    step: str = EMBEDDED
    """Judges each step."""
    text: EndpointNames = (EMBEDDED,)
    """Votes in the text channel; several endpoints are an ensemble."""
    multimodal: EndpointNames = (EMBEDDED,)
    """Votes in the multimodal channel; several endpoints are an ensemble."""


class PromptsSection(Spec):
    """Prompt files of your own, in place of those that come with trajmill (see models.md)."""

    critic_step: Path | None = None
    """For `models.critic.step`."""
    critic_text: Path | None = None
    """For `models.critic.text`."""
    critic_multimodal: Path | None = None
    """For `models.critic.multimodal`."""
    describer_screen: Path | None = None
    """For captions of screens without an accessibility tree, by `models.describer`."""
    describer_step: Path | None = None
    """For descriptions of what a step changed, by `models.describer`; guidance is written from them."""
    writer_guidance: Path | None = None
    """For guidance."""
    writer_synthesise: Path | None = None
    """For the explicit instruction that describes a path."""
    writer_refine: tuple[Path, ...] = ()
    """For training instructions as people say them: a file for each manner; none may ask a question."""
    writer_refine_heldout: tuple[Path, ...] = ()
    """The same for the manners that training never sees, which ask questions."""
    writer_curriculum: Path | None = None
    """For tasks proposed from the success so far."""
    writer_screen: Path | None = None
    """For tasks proposed from a start screen."""
    writer_selection: Path | None = None
    """For `pathways.second_opinion`."""
    writer_commands: Path | None = None
    """For `atomic.written` and `pathways.written`."""
    describer_page: Annotated[Path | None, OPERATIONAL] = None
    """For pages of a graph, their elements and transitions, by `trajmill graph annotate`."""
    writer_slots: Annotated[Path | None, OPERATIONAL] = None
    """For names of slots of a graph, by `trajmill graph annotate`."""


class ModelsSection(Spec):
    """The endpoint behind each role: `embedded`, or the NAME of an `[endpoints.NAME]`."""

    policy: str = EMBEDDED
    """Acts."""
    writer: str = EMBEDDED
    """Writes instructions and guidance."""
    describer: str = EMBEDDED
    """Describes what a step changed, for guidance, and the pages of a graph."""
    critic: CriticRoles = CriticRoles()

    def roles(self) -> Iterator[tuple[KeyPath, str]]:
        """Each role as its key path, with the name of its endpoint; an ensemble gives several pairs."""
        yield POLICY_ROLE, self.policy
        yield ("models", "writer"), self.writer
        yield ("models", "describer"), self.describer
        yield ("models", "critic", "step"), self.critic.step
        for channel in ("text", "multimodal"):
            for name in getattr(self.critic, channel):
                yield ("models", "critic", channel), name
