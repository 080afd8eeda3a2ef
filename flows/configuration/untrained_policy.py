"""Makes the untrained model that a configuration's policy starts with."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.models import EMBEDDED
from trajmill.schemas.errors import BadInputError
from trajmill.stages.environments.simulated.app_files.texts import texts_of
from trajmill.stages.environments.simulated.spec import AppFilesSpec
from trajmill.stages.models.transformers_local.spec import TransformersSpec

_FAMILY = "read-aloud"


class UntrainedPolicy(NamedTuple):
    """The folder of an untrained model."""

    folder: Path
    version: str
    is_new: bool
    """Whether this call made it."""


def make_untrained_policy(config: Config, blind: bool = False) -> UntrainedPolicy:
    """Make the model in the folder of the policy's endpoint; an existing model is kept.

    Equal configurations give equal files: the seed is the run's seed, and the words are those of the environment's
    apps.

    Raises:
        BadInputError: the policy is not a model of the family `read-aloud` in this process, or its environment has no
            app files.
    """
    spec = config.endpoints.get(config.models.policy)
    if not isinstance(spec, TransformersSpec) or spec.family != _FAMILY:
        named = "is embedded" if config.models.policy == EMBEDDED else f"is {config.models.policy!r}"
        raise BadInputError(
            f"models.policy {named}; name an endpoint with kind = 'transformers_local' and family = '{_FAMILY}'"
        )
    if not isinstance(config.environment, AppFilesSpec):
        raise BadInputError("the words of an untrained model come from app files; use environment.kind = 'simulated'")
    is_new = not (spec.model / "config.json").is_file()
    if is_new:
        from trajmill.stages.models.untrained.vision_model import make_untrained

        world = config.environment.navigation_graph()
        texts = texts_of(world.apps.values(), [task.spec for task in world.tasks()])
        make_untrained(spec.model, texts, config.run.seed, blind)
    return UntrainedPolicy(spec.model, spec.version, is_new)
