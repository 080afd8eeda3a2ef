import gc
import weakref
from pathlib import Path
from typing import ClassVar, Literal

import pytest

from tests.stages.models.scripted import ScriptedModel
from trajmill.stages.models.base import ChatModel
from trajmill.stages.models.local.folder import FolderSpec


class CountingSpec(FolderSpec):
    """A model that says which folders were loaded and are still in memory."""

    kind: Literal["counting"] = "counting"
    loads: ClassVar[list[str]] = []
    alive: ClassVar[weakref.WeakValueDictionary[str, ChatModel]] = weakref.WeakValueDictionary()

    def load(self) -> ChatModel:
        model = ScriptedModel(lambda request: "")
        self.loads.append(self.model.name)
        self.alive[self.model.name] = model
        return model


@pytest.mark.slow
def test_a_policy_and_a_critic_stay_loaded_and_the_version_before_is_let_go() -> None:
    for name in ("critic", "v1", "critic", "v2", "critic", "v2"):
        CountingSpec(model=Path(name)).connect({})
    assert CountingSpec.loads == ["critic", "v1", "v2"]
    gc.collect()
    assert set(CountingSpec.alive) == {"critic", "v2"}
