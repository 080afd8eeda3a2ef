"""The spec of the embedded policy."""

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
        """A hash of its weights, which are read for it.

        Raises:
            BadInputError: the folder holds no complete embedded policy.
        """
        return self.connect({}).version

    @property
    def weights_folder(self) -> Path:
        """Folder of its weights."""
        return self.model

    def frame(self, screen: Size) -> CoordinateFrame:
        """The embedded policy writes positions in pixels of the stored screenshot."""
        return native_frame(screen)

    def connect(self, variables: Mapping[str, str]) -> EmbeddedModel:
        """The policy; it computes on one core.

        Raises:
            BadInputError: the folder holds no complete embedded policy.
        """
        from trajmill.stages.models.embedded.storage import load_embedded_model, use_one_thread

        use_one_thread()
        return load_embedded_model(self.model)
