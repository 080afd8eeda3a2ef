"""The prompts of all roles: those that come with trajmill, and the user's own where the configuration names files."""

from __future__ import annotations

from typing import NamedTuple

from trajmill.flows.configuration.config import Config
from trajmill.stages.annotation.annotate import AnnotationPrompts, annotation_prompts
from trajmill.stages.critics.model.request import CriticPrompts, critic_prompts
from trajmill.stages.derive.prompt_files import DerivePrompts, derive_prompts
from trajmill.stages.guidance.model_guide import GuidePrompts, guide_prompts
from trajmill.stages.models.prompts import Prompt
from trajmill.stages.queries.commands.writer import command_prompt
from trajmill.stages.queries.model_writer import WriterPrompts, writer_prompts
from trajmill.stages.queries.pathways.selection import selection_prompt
from trajmill.stages.queries.proposals.proposer import ProposalPrompts, proposal_prompts


class RolePrompts(NamedTuple):
    """The prompts by role."""

    critics: CriticPrompts
    guide: GuidePrompts
    writer: WriterPrompts
    proposals: ProposalPrompts
    selection: Prompt
    commands: Prompt
    derive: DerivePrompts
    annotation: AnnotationPrompts


def prompts_of(config: Config) -> RolePrompts:
    """Read all prompts; workers get their texts, so they do not need the files.

    Raises:
        BadInputError: a file cannot be read, or misses a section or a field.
    """
    files = config.prompts
    return RolePrompts(
        critic_prompts(files.critic_step, files.critic_text, files.critic_multimodal, files.describer_screen),
        guide_prompts(files.describer_step, files.writer_guidance),
        writer_prompts(files.writer_synthesise, files.writer_refine, files.writer_refine_heldout),
        proposal_prompts(files.writer_curriculum, files.writer_screen),
        selection_prompt(files.writer_selection),
        command_prompt(files.writer_commands),
        derive_prompts(config.derive.prompts),
        annotation_prompts(files.describer_page, files.writer_slots),
    )
