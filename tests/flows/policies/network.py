"""The embedded network as a model of another package's kind, which is loaded from a folder into this process."""

from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

from tests.flows.runs import changed, trained_config
from tests.flows.tasks.test_train import FailingRecipe
from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.sections import ModelsSection
from trajmill.flows.stage import RoundContext
from trajmill.stages.models.base import ChatModel
from trajmill.stages.models.embedded.model import load_embedded_model, save_network, untrained_network
from trajmill.stages.models.local.folder import FolderSpec
from trajmill.stages.training.spec import RecipeSpec
from trajmill.warehouse.layout import create_warehouse

NOBODY_TRAINS = FailingRecipe(trains_this=False)


class NetworkSpec(FolderSpec):
    """A model in a folder, cheap enough for whole rounds."""

    takes_adapters: ClassVar[bool] = False

    kind: Literal["network"] = "network"

    def load(self) -> ChatModel:
        return load_embedded_model(self.model)


def network_folder(folder: Path, seed: int) -> Path:
    """The folder of an untrained network."""
    save_network(untrained_network(seed), folder)
    return folder


def network_config(root: Path, folder: Path, recipe: RecipeSpec) -> Config:
    """A small round whose policy is the network in a folder."""
    return changed(
        trained_config(root),
        models=ModelsSection(policy="mine"),
        endpoints={"mine": NetworkSpec(model=folder)},
        train=recipe,
    )


class WaitingRun(NamedTuple):
    """A run whose first round waits for somebody to train its policy."""

    config: Config
    network: Path
    """Folder of the policy."""

    def trained_by(self, recipe: RecipeSpec) -> RoundContext:
        """The first round of this run, which a recipe goes on with."""
        config = changed(self.config, train=recipe)
        return RoundContext(config, create_warehouse(config.run.root), 1, run_id=self.config.run_id)
