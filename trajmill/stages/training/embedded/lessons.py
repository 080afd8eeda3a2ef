"""Reads the steps of accepted attempts from a release, as the embedded policy sees them; images are not read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trajmill.schemas.actions import Action, Click, LongPress, TypeText, Wait
from trajmill.schemas.coordinates import native_frame
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.gui_owl_v3 import GuiOwlDesktop, GuiOwlMobile
from trajmill.schemas.dialects.user_text import UserText, read
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER
from trajmill.schemas.tables.screen import trees_of
from trajmill.stages.export.exporter import RL_FILE, SFT_FILE
from trajmill.stages.export.release import released_rows, screen_files
from trajmill.stages.models.embedded.candidates import CandidateAction
from trajmill.stages.models.embedded.model import is_phone_prompt
from trajmill.stages.models.embedded.situation import InputReader, PolicyInput

_SCREEN_COLUMNS = ["screen_id", "width", "height", "elements"]
_STEP_COLUMNS = ["prompt", "screen_ids", "trajectory_id", "step_index"]
_SFT_COLUMNS = [*_STEP_COLUMNS, "completion", "loss_weight"]
_RL_COLUMNS = [*_STEP_COLUMNS, "response", "advantage", "step_weight"]


class Turn(NamedTuple):
    """One prompt, its reply and its loss weight."""

    system: str
    user: str
    reply: str
    screen_id: str
    weight: float
    trajectory_id: str
    step_index: int


class SeenScreen(NamedTuple):
    """Size and accessibility tree of a stored screen."""

    size: Size
    elements: tuple[UIElement, ...]


class LessonStep(NamedTuple):
    """One step to learn from."""

    turn: Turn
    phone: bool
    user: UserText
    policy_input: PolicyInput
    label: int
    """Index of the candidate that was chosen."""

    @property
    def chosen(self) -> CandidateAction:
        return self.policy_input.candidates[self.label]


def lesson_steps(turns: Iterable[Turn], screens: Mapping[str, SeenScreen], reader: InputReader) -> list[LessonStep]:
    """Return the steps of turns; a turn without a known screen, or whose action is no candidate, is left out."""
    found = []
    for turn in turns:
        screen = screens.get(turn.screen_id)
        if screen is None:
            continue
        phone = is_phone_prompt(turn.system)
        dialect = GuiOwlMobile() if phone else GuiOwlDesktop()
        reply = dialect.parse(turn.reply, native_frame(screen.size))
        if not isinstance(reply, Reply):
            continue
        user = read(turn.user.replace(IMAGE_PLACEHOLDER, ""))
        policy_input = reader.read(user, turn.screen_id, screen.size, screen.elements, phone=phone)
        label = chosen_candidate(policy_input.candidates, reply.action, phone=phone)
        if label is not None and policy_input.situation.exists[label]:
            found.append(LessonStep(turn, phone, user, policy_input, label))
    return found


def chosen_candidate(candidates: Sequence[CandidateAction], action: Action, *, phone: bool) -> int | None:
    """Return the index of the candidate that does the same as an action; None if there is none.

    A press anywhere on an element counts as a press on it; of nested elements, the smallest counts. A text is the same
    whether it replaces another one or not.
    """
    if isinstance(action, TypeText) and not action.enter:
        return next((i for i, c in enumerate(candidates) if (c.verb, c.text) == ("type", action.text)), None)
    at = (action.x, action.y) if isinstance(action, Click | LongPress) else None
    for index, candidate in enumerate(candidates):
        # Most candidates press elsewhere, and to make an action takes time.
        if (at is None or candidate.bounds.center == at) and candidate.action(phone=phone) == action:
            return index
    if not isinstance(action, Click | LongPress):
        return next((i for i, c in enumerate(candidates) if c.verb == "wait" and isinstance(action, Wait)), None)
    held = isinstance(action, LongPress) or action.button == "right"
    verb = "hold" if held else "open" if isinstance(action, Click) and action.count == 2 else "press"
    under = [i for i, c in enumerate(candidates) if c.verb == verb and c.bounds.contains(action.x, action.y)]
    return min(under, key=lambda index: candidates[index].bounds.area, default=None)


def sft_turns(release: Path, file: str = SFT_FILE) -> list[Turn]:
    """Return the supervised rows of a release. Raises BadInputError for a missing or foreign file."""
    with _damage_as_error(release):
        rows = released_rows(release, file, _SFT_COLUMNS).to_pylist()
    return [_turn(row, _text(row["completion"][-1]["content"]), row["loss_weight"]) for row in rows]


def rl_turns(release: Path) -> list[Turn]:
    """Return the RL rows of a release, weighted by advantage times step weight (paper 3.1.2).

    Raises BadInputError if it has none, or for a foreign file.
    """
    if not (release / RL_FILE).exists():
        raise BadInputError(f"{release} has no RL rows: nothing to compare; set rollout.group_size to 2 or more")
    with _damage_as_error(release):
        rows = pq.read_table(release / RL_FILE, columns=_RL_COLUMNS, page_checksum_verification=True).to_pylist()
    return [_turn(row, row["response"], row["advantage"] * row["step_weight"]) for row in rows]


def seen_screens(release: Path) -> dict[str, SeenScreen]:
    """Return the screens of a release by id. Raises BadInputError for a foreign file."""
    found = dict[str, SeenScreen]()
    with _damage_as_error(release):
        for path in screen_files(release):
            rows = pq.read_table(path, columns=_SCREEN_COLUMNS, page_checksum_verification=True)
            new = rows.filter(pc.invert(pc.is_in(rows["screen_id"], pa.array(found, pa.string()))))
            names, *sizes = (new[column].to_pylist() for column in _SCREEN_COLUMNS[:3])
            screens = map(SeenScreen, map(Size, *sizes), trees_of(new["elements"]))
            found.update(zip(names, screens, strict=True))
    return found


def _turn(row: dict[str, Any], reply: str, weight: float) -> Turn:
    system = next((_text(message["content"]) for message in row["prompt"] if message["role"] == "system"), "")
    user = _text(row["prompt"][-1]["content"])
    return Turn(system, user, reply, row["screen_ids"][-1], weight, row["trajectory_id"], row["step_index"])


def _text(content: str | list[dict[str, str]]) -> str:
    return content if isinstance(content, str) else "".join(block["text"] or "" for block in content)


@contextmanager
def _damage_as_error(release: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowInvalid, KeyError) as error:
        raise BadInputError(f"{release}: a file of the release cannot be read ({error}); make it again") from error
