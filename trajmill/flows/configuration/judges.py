"""The judges of a configuration: the run's own judge, which decides what is trained on, and the named judges."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from trajmill.flows.configuration.config import OWN_JUDGE, Config
from trajmill.flows.configuration.model_specs import models_of
from trajmill.flows.configuration.models import CriticRoles
from trajmill.flows.configuration.prompts import prompts_of
from trajmill.pipelines.judge import RejudgeIdentity
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.names import instead_of
from trajmill.schemas.record import content_id
from trajmill.stages.critics.base import Ask
from trajmill.stages.critics.spec import CriticModels, JudgeSpec
from trajmill.stages.critics.voting import Rule


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
