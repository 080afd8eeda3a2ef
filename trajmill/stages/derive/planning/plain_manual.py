"""The manual of a task without a language model: what the steps of one success did, told as what is to be done."""

from __future__ import annotations

import re
from typing import Final

from trajmill.schemas.actions import Terminate, action_from_json
from trajmill.schemas.episode import Episode
from trajmill.schemas.tables.step import Step
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.derive.planning.named_values import with_names

_TO_DO: Final = {
    "Tapped ": "Tap ",
    "Opened ": "Open ",
    "Typed ": "Type ",
    "Scrolled ": "Scroll ",
    "Confirmed on ": "Confirm on ",
    "Returned on ": "Go back from ",
    "Left on ": "Go to the home screen from ",
}
"""How the conclusions of the embedded policy begin; those of a model are kept as they are."""
_NOTED = re.compile(r' Noted ("[^"]*"(?:, "[^"]*")*)\.$')
_BESIDE_NAME = re.compile(r'("\{[^"{}]+\}") for "[^"]*"')
_NAME = re.compile(r'"\{[^"{}]+\}"')


def plain_steps(success: Episode) -> list[str]:
    """The steps of a manual from the conclusions of a success, with names in the place of values.

    Left out are redundant and harmful steps, the end of the episode, and what stood on the screens of this success
    alone: notes of other things than values, and what an element is told by if a value is its label.
    """
    told = (with_names(" ".join(step.conclusion.split()), success.query.slots) for step in steps_to_tell(success))
    return [_to_do(each) for each in told if each]


def steps_to_tell(success: Episode) -> list[Step]:
    """The steps of a success without redundant and harmful ones and its end."""
    redundant = frozenset() if success.judgement is None else frozenset(success.judgement.redundant_steps)
    harmful = {verdict.index for verdict in success.step_verdicts if verdict.label is StepLabel.HARMFUL}
    return [step for step in success.steps if step.index not in redundant | harmful and not _ends(step)]


def _ends(step: Step) -> bool:
    return step.action is None or isinstance(action_from_json(step.action), Terminate)


def _to_do(conclusion: str) -> str:
    begun = next((begin for begin in _TO_DO if conclusion.startswith(begin)), None)
    if begun is None:
        return conclusion
    told = _NOTED.sub(_values_noted, conclusion)
    return _TO_DO[begun] + _BESIDE_NAME.sub(r"\1", told.removeprefix(begun))


def _values_noted(noted: re.Match[str]) -> str:
    values = _NAME.findall(noted[1])
    return f" Note {', '.join(values)}." if values else ""
