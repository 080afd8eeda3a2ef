"""What the specs of all exporters have in common."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from trajmill.schemas.spec import Spec

if TYPE_CHECKING:
    from trajmill.stages.export.base import Exporter


class ExporterSpec(Spec):
    """A format of a release's rows, named by `release.formats`."""

    @abstractmethod
    def open(self) -> Exporter:
        """What writes the rows."""
