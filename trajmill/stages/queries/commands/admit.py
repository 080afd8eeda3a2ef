"""Checks a command that a model wrote, and makes a query of it that still has to be walked.

Whatever the model wrote is text: its steps become typed operations, or the command is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from trajmill.schemas.observation import Observation
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.query import PathStep, Query, Split
from trajmill.stages.environments.screen_goal import KEY, LACKING, ScreenGoal, Showing, holds_on, targets
from trajmill.stages.graphs.explore.deny_list import DenyList
from trajmill.stages.queries.commands.base import CommandPlace, WrittenCommand, WrittenStep
from trajmill.stages.queries.difficulty import difficulty, step_limit
from trajmill.stages.queries.phrasing_template import one_line
from trajmill.stages.queries.proposals.propose import why_no_task

NOT_WALKED = "written by a model, not walked"
"""Validation outcome of a command before its walk."""
_OPERATIONS = frozenset({"tap", "double_tap", "right_tap", "type", "replace", "key", "drag", "select", "scroll"})
_NEEDS_TARGET = _OPERATIONS - {"type", "replace", "key"}
_NAMED_KEYS = "enter|tab|escape|space|backspace|delete|home|end|up|down|left|right|f[1-9]|f1[0-2]"
_KEYS = re.compile(rf"(?:(?:ctrl|shift|alt)\+)*(?:[a-z0-9]|{_NAMED_KEYS})")
_DENIED_KEYS = re.compile(r"alt\+f4|ctrl\+(?:shift\+)?(?:q|w|p|o|n)|ctrl\+alt\+.*|alt\+(?:tab|space)")
"""They close, print, or go to another file or window."""
_FEWEST_STEPS = 15


def why_no_command(command: WrittenCommand, place: CommandPlace, screen: Observation, deny_list: DenyList) -> str:
    """Why a command cannot be used, in one line; empty if it can be walked."""
    text = one_line(command.instruction)
    return next(_reasons(command, text, place, screen, deny_list), "")


def _reasons(
    command: WrittenCommand, text: str, place: CommandPlace, screen: Observation, deny_list: DenyList
) -> Iterator[str]:
    if reason := why_no_task(command.instruction, text):
        yield reason
    if command.pathway is not None and not 0 <= command.pathway < len(place.pathways):
        yield f"there is no pathway {command.pathway}"
    if command.pathway is None and not command.steps:
        yield "it has no step"
    for step in command.steps:
        yield from _of_step(step, deny_list)
    first = next((step.target for step in command.steps if step.target), "")
    if command.pathway is None and first and first not in targets(screen.elements or ()) and not _is_scrolled(command):
        yield f"{first!r} is not on the screen"
    if command.pathway is None and not (command.shows or command.lacks):
        yield "nothing tells when it is done"
    wanted = ScreenGoal(showing=command.shows, lacking=command.lacks)
    if (command.shows or command.lacks) and holds_on(screen, wanted):
        yield "it is done before it begins"


def _of_step(step: WrittenStep, deny_list: DenyList) -> Iterator[str]:
    if step.operation not in _OPERATIONS:
        yield f"{step.operation!r} is no operation"
    elif step.operation in _NEEDS_TARGET and not step.target:
        yield f"{step.operation} needs a target"
    elif step.operation == "key" and (not _KEYS.fullmatch(step.text) or _DENIED_KEYS.fullmatch(step.text)):
        yield f"the keys {step.text!r} are not pressed"
    elif step.operation in ("type", "replace") and not step.text.strip():
        yield f"{step.operation} needs a text"
    if not all(letter.isprintable() or letter == "\n" for letter in f"{step.target}{step.text}"):
        yield "a step has characters that nobody types"
    if deny_list.denies(step.target):
        yield f"{step.target!r} is never pressed"


def _is_scrolled(command: WrittenCommand) -> bool:
    return bool(command.steps) and command.steps[0].operation == "scroll"


def command_query(command: WrittenCommand, place: CommandPlace, made_by: str, origin: Origin) -> Query:
    """A training query for a command that can be used."""
    text, page = one_line(command.instruction), f"{place.app}.start"
    taken = place.pathways[command.pathway] if command.pathway is not None else None
    own = tuple(PathStep(page=page, **step.model_dump()) for step in command.steps)
    before = (*place.opening, *(taken.steps if taken else ()))
    path = (*before, *own, PathStep(page=page, operation="finish", target=""))
    task = f"{place.app}.written-{content_id(place.start_state, text.casefold())[:12]}"
    return Query(
        query_id=Query.make_id(place.platform, task, (), place.start_state, text),
        platform=place.platform,
        apps=(place.app,),
        source=place.source,
        task=task,
        raw_instruction=text,
        instruction=text,
        phrasing="",
        pages=(page,),
        page_descriptions=(f"What {place.title} shows at the start.",),
        slots=(),
        path=path,
        start_state=place.start_state,
        goal=_goal(command, tuple(Showing(**each.model_dump()) for each in taken.shows) if taken else ()),
        difficulty=difficulty(path, 1),
        max_steps=max(_FEWEST_STEPS, step_limit(path)),
        split=Split.TRAIN,
        validation=NOT_WALKED,
        **origin.common(made_by=made_by),
    )


def _goal(command: WrittenCommand, at_end: tuple[Showing, ...]) -> str:
    shows = command.shows or (at_end if not command.lacks else ())
    return json.dumps(
        {
            key: [each.model_dump(exclude_defaults=True) for each in elements]
            for key, elements in ((KEY, shows), (LACKING, command.lacks))
            if elements
        },
        ensure_ascii=False,
    )
