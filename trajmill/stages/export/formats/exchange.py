"""Formats that exchange whole attempts: each is a function from an episode to a document, with pictures beside it."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Final

from trajmill.schemas.episode import Episode
from trajmill.schemas.spec import Spec
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.export.card import front_matter
from trajmill.stages.export.formats.card import ExportedRelease
from trajmill.stages.export.formats.folder import FIGURES_FILE
from trajmill.stages.export.images import ReleaseScreenReader
from trajmill.stages.guidance.strip import quotes_guidance
from trajmill.stages.parts import PartGroup

EXCHANGES: Final = PartGroup(
    "trajmill.exchanges",
    "exchange format",
    {
        "atif": "trajmill.stages.export.formats.atif:AtifFormat",
        "adp": "trajmill.stages.export.formats.adp:AdpFormat",
    },
)
_AT_ONCE = 32
"""Attempts whose pictures are read from the store together."""


class ExchangeFormat(Spec):
    """Base class of formats whose documents are attempts, in pixels of the stored screens and without a family."""

    contents: ClassVar[str]
    """What the folder holds, in Markdown."""
    kind: str

    @abstractmethod
    def write(self, folder: Path, attempts: Sequence[Episode], screens: ReleaseScreenReader) -> None:
        """Add the documents of some attempts, with verdicts, guidance and calls, and their pictures to a folder."""


def write_exchange(
    folder: Path,
    form: ExchangeFormat,
    source: ExportedRelease,
    attempts: Iterable[Episode],
    screens: ReleaseScreenReader,
) -> int:
    """Write all attempts, card and figures into an empty folder, and count them; memory holds some of them at once."""
    count, remaining = 0, iter(attempts)
    while some := list(islice(remaining, _AT_ONCE)):
        form.write(folder, some, screens)
        count += len(some)
    front = front_matter(f"{source.release} as {form.kind}", source.licence, {})
    title = f"# {source.release} as {form.kind}: {count:,} attempts"
    (folder / "README.md").write_text(f"{front}\n\n{title}\n\n{form.contents}\n", encoding="utf-8")
    figures = {**source._asdict(), "format": form.kind, "attempts": count}
    (folder / FIGURES_FILE).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return count


def reward_of(episode: Episode) -> float | None:
    """Return the programmatic reward; without a check, 1 or 0 by the judge; None if it was not judged either."""
    given = episode.trajectory.reward
    return episode.judged_reward if given is None else given


def screens_of(episode: Episode) -> Iterator[str]:
    """Yield the id of the first screen, and of the screen after each step."""
    yield from (step.screen_before for step in episode.steps[:1])
    yield from (step.screen_after for step in episode.steps)


def context_steps(episode: Episode) -> frozenset[int]:
    """Return the steps that must not be learned.

    They are a parent's, were not prompted, repeat a hint, or are HARMFUL in a success.
    """
    harmful = {verdict.index for verdict in episode.step_verdicts if verdict.label is StepLabel.HARMFUL}
    left_out = harmful if episode.judged_reward else set()
    return frozenset(
        step.index
        for step in episode.steps
        if not step.prompt
        or step.index < (episode.trajectory.branched_at or 0)
        or step.index in left_out
        or quotes_guidance("\n".join((step.thought, step.conclusion, step.raw_response)), episode.guidance)
    )


def facts_of(episode: Episode) -> dict[str, Any]:
    """Return what neither format has a field for, as JSON values."""
    query, trajectory, judged = episode.query, episode.trajectory, episode.judgement
    made = ("run_id", "round", "query_id", "environment", "purpose", "parent_id", "branched_at")
    ended = ("status", "stop_reason", "answer", "reward")
    decided = ("correct", "rule", "agreed", "redundant_steps", "first_error_step")
    voted = ("channel", "resolution", "vote", "correct", "reason")
    return {
        "platform": query.platform.value,
        "apps": list(query.apps),
        "task": query.task,
        "coordinate_space": "pixels of the picture",
        **{name: getattr(trajectory, name) for name in (*made, *ended)},
        "guided": trajectory.guidance_id is not None,
        "judgement": None if judged is None else {name: getattr(judged, name) for name in decided},
        "votes": [{name: getattr(vote, name) for name in voted} for vote in episode.trajectory_verdicts],
    }
