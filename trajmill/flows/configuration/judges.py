"""The prompts and the judges that a configuration names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from trajmill.flows.configuration.config import OWN_JUDGE, Config
from trajmill.flows.configuration.model_specs import models_of
from trajmill.flows.configuration.sections import CriticRoles
from trajmill.pipelines.judge import RejudgeIdentity
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.names import instead_of
from trajmill.schemas.record import content_id
from trajmill.stages.annotation.annotate import AnnotationPrompts, annotation_prompts
from trajmill.stages.critics.base import Ask
from trajmill.stages.critics.model.request import CriticPrompts, critic_prompts
from trajmill.stages.critics.spec import CriticModels, JudgeSpec
from trajmill.stages.critics.voting import Rule
from trajmill.stages.guidance.model_guide import GuidePrompts, guide_prompts
from trajmill.stages.models.prompts import Prompt
from trajmill.stages.queries.commands.source import command_prompt
from trajmill.stages.queries.model_writer import WriterPrompts, writer_prompts
from trajmill.stages.queries.pathways.search import selection_prompt
from trajmill.stages.queries.proposals.propose import ProposalPrompts, proposal_prompts


class RolePrompts(NamedTuple):
    """The prompts by role."""

    critics: CriticPrompts
    guide: GuidePrompts
    writer: WriterPrompts
    proposals: ProposalPrompts
    selection: Prompt
    commands: Prompt
    derive: Mapping[str, Prompt]
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
        config.derive.prompts.load(),
        annotation_prompts(files.describer_page, files.writer_slots),
    )


@dataclass(frozen=True)
class NamedJudge:
    """A judge with the models that it asks, ready to be opened."""

    name: str
    spec: JudgeSpec
    critics: CriticModels
    endpoints: tuple[str, ...]
    """Names of the endpoints that it asks, embedded ones included."""
    settings: str
    """JSON of everything that decides its verdicts."""

    @property
    def rule(self) -> Rule:
        """How its votes are combined."""
        return self.spec.rule(self.critics)

    @property
    def identity(self) -> RejudgeIdentity:
        """The name and id on its verdicts when it judges stored trajectories; the id changes with `ask`, too."""
        return RejudgeIdentity(self.name, content_id("judge", self.name, self.spec.ask, json.loads(self.settings)))

    def asking_for_all(self) -> NamedJudge:
        """The same judge, but it asks for every vote of every pass, so that each ingredient can be calibrated."""
        return replace(self, spec=self.spec.model_copy(update={"ask": Ask.ALL}))


def own_judge(config: Config) -> NamedJudge:
    """The judge of the run itself: `[judge]` with the models of `[models.critic]`."""
    return _judge(config, OWN_JUDGE, config.judge, config.models.critic)


def judge_named(config: Config, name: str) -> NamedJudge:
    """The judge of `[judges.NAME]`, or the run's own judge if `name` is `judge`.

    Raises:
        BadInputError: there is none of that name.
    """
    if name == OWN_JUDGE:
        return own_judge(config)
    if name not in config.judges:
        advice = instead_of(name, [*config.judges, OWN_JUDGE])
        raise BadInputError(f"there is no [judges.{name}] in the configuration; {advice}")
    section, roles = config.judges[name], config.models.critic
    voting = CriticRoles(
        step=section.step or roles.step,
        text=section.text or roles.text,
        multimodal=section.multimodal or roles.multimodal,
    )
    return _judge(config, name, section, voting)


def _judge(config: Config, name: str, section: JudgeSpec, roles: CriticRoles) -> NamedJudge:
    spec = section.model_copy(update={"graphs": section.graphs or config.graphs.files})
    critics = CriticModels(
        step=next(iter(models_of(config, [roles.step])), None),
        text=models_of(config, roles.text),
        multimodal=models_of(config, roles.multimodal),
        describer=next(iter(models_of(config, [config.models.describer])), None),
        prompts=prompts_of(config).critics,
        seed=config.run.seed,
    )
    return NamedJudge(name, spec, critics, _endpoint_names(config, roles), _settings(config, spec, roles))


def _settings(config: Config, spec: JudgeSpec, roles: CriticRoles) -> str:
    """JSON of the contents that decide the verdicts: models by what they are, prompts by their texts.

    Left out is what decides no verdict: names of endpoints and files, addresses, and what the votes are used for.
    """
    voting = spec.identity()
    decisive = {
        "voting": {name: voting[name] for name in set(JudgeSpec.model_fields) & set(voting) - {"ask"}},
        "step": _model_identity(config, roles.step),
        "text": [_model_identity(config, name) for name in roles.text],
        "multimodal": [_model_identity(config, name) for name in roles.multimodal],
        "describer": _model_identity(config, config.models.describer),
        "prompts": [content_id(prompt.system, prompt.user) for prompt in prompts_of(config).critics],
        "seed": config.run.seed,
    }
    return json.dumps(decisive, sort_keys=True)


def _model_identity(config: Config, endpoint: str) -> object:
    return config.endpoints[endpoint].identity() if endpoint in config.endpoints else endpoint


def _endpoint_names(config: Config, roles: CriticRoles) -> tuple[str, ...]:
    return tuple(dict.fromkeys((roles.step, *roles.text, *roles.multimodal, config.models.describer)))
