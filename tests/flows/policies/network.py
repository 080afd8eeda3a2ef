"""The embedded network as a model of another package's kind, which is loaded from a folder into this process."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from tests.flows.tasks.test_train import FailingRecipe, tiny_config
from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.models import ModelsSection
from trajmill.stages.models.base import ChatModel
from trajmill.stages.models.embedded.storage import load_embedded_model, save_network, untrained_network
from trajmill.stages.models.local.spec import FolderSpec
from trajmill.stages.training.embedded.spec import EmbeddedSftSpec
from trajmill.stages.training.spec import RecipeSpec

NOBODY_TRAINS = FailingRecipe(trains_this=False)


class NetworkSpec(FolderSpec):
    """A model in a folder, cheap enough for whole rounds."""

    kind: Literal["network"] = "network"

    def load(self) -> ChatModel:
        return load_embedded_model(self.model)


def network_folder(folder: Path, seed: int) -> Path:
    """The folder of an untrained network."""
    save_network(untrained_network(seed), folder)
    return folder


def network_config(root: Path, folder: Path, recipe: RecipeSpec | None = None, rounds: int = 1) -> Config:
    """Small rounds whose policy is the network in a folder."""
    return tiny_config(root, rounds).model_copy(
        update={
            "models": ModelsSection(policy="mine"),
            "endpoints": {"mine": NetworkSpec(model=folder)},
            "train": recipe or EmbeddedSftSpec(min_updates=5, max_updates=10),
        }
    )
