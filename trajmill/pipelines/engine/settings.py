"""The Beam runner of a run and its options."""

from __future__ import annotations

from dataclasses import dataclass

from trajmill.pipelines.engine.beam import PipelineOptions

_ON_THIS_MACHINE = frozenset({"FnApiRunner", "DirectRunner", "BundleBasedDirectRunner"})

_NO_LIST_OF_PACKAGES = "--experiments=disable_logging_submission_environment"
"""Beam would run `pip freeze` before each job, which takes seconds, and no stage needs it."""


@dataclass(frozen=True)
class BeamSettings:
    """The Beam runner and its options. The in-process runner is named, because Beam's default downloads another."""

    runner: str = "FnApiRunner"
    options: tuple[str, ...] = ()
    """Further Beam options, e.g. `--flink_master=...`."""
    restarts: int = 5
    """How often a stage is started again after its workers were lost."""
    silent_seconds: float = 300.0
    """Seconds without a sign of life of any worker after which they are taken for lost; 0 waits for ever."""

    @property
    def on_this_machine(self) -> bool:
        """Whether all workers run on this machine, and so see its files."""
        return self.runner.rpartition(".")[2] in _ON_THIS_MACHINE

    def pipeline_options(self) -> PipelineOptions:
        """The options in Beam's class."""
        own = () if self.on_this_machine else (_NO_LIST_OF_PACKAGES,)
        return PipelineOptions([f"--runner={self.runner}", *own, *self.options])
