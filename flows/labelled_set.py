"""Judge a labelled set from elsewhere."""

from __future__ import annotations

from pathlib import Path

from flows.context import RoundContext
from flows.evidence import Evaluated
from flows.judges import NamedJudge


def judge_labelled_set(context: RoundContext, judge: NamedJudge, folder: Path) -> Evaluated:
    """Let a judge judge the trajectories of a labelled set."""
    raise NotImplementedError
