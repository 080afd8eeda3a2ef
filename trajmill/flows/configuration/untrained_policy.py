"""Makes the untrained model that a configuration's policy starts with."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.sections import EMBEDDED
from trajmill.schemas.errors import BadInputError
from trajmill.stages.environments.kinds import AppFilesSpec
from trajmill.stages.environments.simulated.app_files.references import texts_of
from trajmill.stages.models.local.folder import TransformersSpec, folder_version
from trajmill.stages.models.openai_api.spec import OpenAiSpec


class UntrainedPolicy(NamedTuple):
    folder: Path
    version: str
    is_new: bool


def make_untrained_policy(config: Config, blind: bool = False) -> UntrainedPolicy:
    """Make the model in the folder of the policy's endpoint; an existing model is kept.

    Equal configurations give equal files: the seed is the run's seed, and the words are those of the environment's
    apps.

    Raises:
        BadInputError: the policy is not a model of the family `read-aloud` whose folder is named, or its environment
            has no app files.
    """
    match config.endpoints.get(config.models.policy):
        case TransformersSpec(family="read-aloud", model=folder) | OpenAiSpec(family="read-aloud", weights=folder):
            pass
        case _:
            folder = None
    if folder is None:
        policy = "is embedded" if config.models.policy == EMBEDDED else f"is {config.models.policy!r}"
        raise BadInputError(
            f"models.policy {policy}; name an endpoint with family = 'read-aloud' and a folder of weights"
        )
    if not isinstance(config.environment, AppFilesSpec):
        raise BadInputError("the words of an untrained model come from app files; use environment.kind = 'simulated'")
    is_new = not (folder / "config.json").is_file()
    if is_new:
        from trajmill.stages.models.untrained import make_untrained

        world = config.environment.navigation_graph()
        texts = texts_of(world.apps.values(), [task.spec for task in world.tasks()])
        make_untrained(folder, texts, config.run.seed, blind)
    return UntrainedPolicy(folder, folder_version(folder), is_new)
