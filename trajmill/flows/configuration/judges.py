"""The prompts and the judges that a configuration names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from trajmill.flows.configuration.config import OWN_JUDGE, Config, model_of, model_or_none
from trajmill.flows.configuration.sections import EMBEDDED, CriticRoles
from trajmill.pipelines.judge import RejudgeIdentity
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.names import instead_of
from trajmill.schemas.record import content_id
from trajmill.stages.annotation.annotate import AnnotationPrompts, annotation_prompts
from trajmill.stages.critics.spec import CriticModels, CriticPrompts, JudgeSpec, critic_prompts
from trajmill.stages.critics.voting import Rule
from trajmill.stages.guidance.model_guide import GuidePrompts, guide_prompts
from trajmill.stages.models.prompts import Prompt
from trajmill.stages.queries.written import QueryPrompts, query_prompts


class RolePrompts(NamedTuple):
    critics: CriticPrompts
    guide: GuidePrompts
    writer: QueryPrompts
    derive: Mapping[str, Prompt]
    annotation: AnnotationPrompts


def prompts_of(config: Config) -> RolePrompts:
    """Read all prompts, whose texts workers get. Raises BadInputError for an unusable file."""
    own, derive = config.prompts.model_dump(), config.derive.prompts.load()
    return RolePrompts(critic_prompts(own), guide_prompts(own), query_prompts(own), derive, annotation_prompts(own))


@dataclass(frozen=True)
class NamedJudge:
    """A judge with its models, ready to be opened."""

    name: str
    spec: JudgeSpec
    critics: CriticModels
    endpoints: tuple[str, ...]
    settings: str
    """JSON of everything that decides its verdicts."""

    @property
    def rule(self) -> Rule:
        return self.spec.rule(self.critics)

    @property
    def identity(self) -> RejudgeIdentity:
        """Name and id on its verdicts of stored trajectories; `ask` is part of the id."""
        return RejudgeIdentity(self.name, content_id("judge", self.name, self.spec.ask, json.loads(self.settings)))


def own_judge(config: Config) -> NamedJudge:
    """Return the judge of the run itself: `[judge]` with the models of `[models.critic]`."""
    return _judge(config, OWN_JUDGE, config.judge, config.models.critic)


def judge_named(config: Config, name: str) -> NamedJudge:
    """Return the judge of `[judges.NAME]`, or the run's own for `judge`. Raises BadInputError for an unknown name."""
    if name == OWN_JUDGE:
        return own_judge(config)
    if name not in config.judges:
        advice = instead_of(name, [*config.judges, OWN_JUDGE])
        raise BadInputError(f"there is no judge {name!r} in the configuration; {advice}")
    section = config.judges[name]
    own = {key: named for key in CriticRoles.model_fields if (named := getattr(section, key))}
    return _judge(config, name, section, config.models.critic.model_copy(update=own))


def _judge(config: Config, name: str, section: JudgeSpec, roles: CriticRoles) -> NamedJudge:
    spec = section.model_copy(update={"graphs": section.graphs or config.graphs.files})
    describer, prompts = config.models.describer, prompts_of(config).critics
    critics = CriticModels(
        step=model_or_none(config, roles.step),
        text=tuple(model_of(config, each) for each in roles.text if each != EMBEDDED),
        multimodal=tuple(model_of(config, each) for each in roles.multimodal if each != EMBEDDED),
        describer=model_or_none(config, describer),
        prompts=prompts,
        seed=config.run.seed,
    )
    # Models count by what they are, prompts by their texts; names, addresses and the use of the votes do not count.
    voting, behind = spec.identity(), config.identity_behind
    decisive = {
        "voting": {key: voting[key] for key in set(JudgeSpec.model_fields) & set(voting) - {"ask"}},
        "step": behind(roles.step),
        "text": list(map(behind, roles.text)),
        "multimodal": list(map(behind, roles.multimodal)),
        "describer": behind(describer),
        "prompts": [content_id(prompt.system, prompt.user) for prompt in prompts],
        "seed": config.run.seed,
    }
    endpoints = tuple(dict.fromkeys((roles.step, *roles.text, *roles.multimodal, describer)))
    return NamedJudge(name, spec, critics, endpoints, json.dumps(decisive, sort_keys=True))
