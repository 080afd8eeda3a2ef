from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from trajmill.schemas.coordinates import CoordinateFrame, native_frame
from trajmill.schemas.geometry import Size
from trajmill.stages.models.spec import ModelSpec

if TYPE_CHECKING:
    from trajmill.stages.models.embedded.model import EmbeddedModel


class EmbeddedSpec(ModelSpec):
    """The embedded policy, starting with trained weights. Without an endpoint, the role `embedded` starts untrained."""

    kind: Literal["embedded"] = "embedded"
    """The network of trajmill."""
    model: Path
    """Folder of its weights."""

    @property
    def version(self) -> str:
        return self.connect({}).version

    @property
    def weights_folder(self) -> Path:
        return self.model

    def frame(self, screen: Size) -> CoordinateFrame:
        return native_frame(screen)

    def connect(self, variables: Mapping[str, str]) -> EmbeddedModel:
        from trajmill.stages.models.embedded.model import load_embedded_model, use_one_thread

        use_one_thread()
        return load_embedded_model(self.model)
