"""The actions of the published tool `mobile_use`; each family has a part of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from trajmill.schemas.actions import (
    Action,
    Answer,
    Click,
    Interact,
    LongPress,
    OpenApp,
    PressKeys,
    Swipe,
    SystemButton,
    Terminate,
    TypeText,
    Wait,
)
from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.dialects.arguments import Arguments, ArgumentsError
from trajmill.schemas.dialects.signs import unknown_action
from trajmill.schemas.dialects.tool_call import refusal, written_position, written_seconds

TOOL = "mobile_use"


def read_mobile_use(arguments: Arguments, names: Collection[str]) -> Action:
    """The action of a call.

    Raises:
        ArgumentsError: the call is no action of the given names.
    """
    name = arguments.word("action")
    if name not in names:
        raise ArgumentsError(unknown_action(TOOL, name))
    match name:
        case "click":
            x, y = arguments.position("coordinate")
            return Click(x=x, y=y)
        case "long_press":
            x, y = arguments.position("coordinate")
            return LongPress(x=x, y=y, seconds=arguments.seconds(1.0))
        case "swipe":
            (x, y), (x2, y2) = arguments.position("coordinate"), arguments.position("coordinate2")
            return Swipe(x=x, y=y, x2=x2, y2=y2)
        case "key":
            return PressKeys(keys=(arguments.text(),))
        case "type":
            return TypeText(text=arguments.text())
        case "answer":
            return Answer(text=arguments.text())
        case "interact":
            return Interact(text=arguments.text())
        case "open":
            return OpenApp(app=arguments.text())
        case "system_button":
            return SystemButton(button=arguments.button())
        case "wait":
            return Wait(seconds=arguments.seconds(1.0))
        case "terminate":
            return Terminate(status=arguments.status())
        case _:
            raise ArgumentsError(unknown_action(TOOL, name))


def write_mobile_use(action: Action, frame: CoordinateFrame, names: Collection[str]) -> Mapping[str, Any]:
    """The arguments of the call that is an action.

    Raises:
        NotExpressible: none of the given names says it.
    """
    arguments = _arguments(action, frame)
    if arguments is None or arguments["action"] not in names:
        raise refusal(TOOL, action)
    return arguments


def _arguments(action: Action, frame: CoordinateFrame) -> Mapping[str, Any] | None:
    match action:
        case Click(x=x, y=y, button="left", count=1):
            return {"action": "click", "coordinate": written_position(x, y, frame)}
        case LongPress(x=x, y=y, seconds=seconds):
            return {
                "action": "long_press",
                "coordinate": written_position(x, y, frame),
                "time": written_seconds(seconds),
            }
        case Swipe(x=x, y=y, x2=x2, y2=y2):
            return {
                "action": "swipe",
                "coordinate": written_position(x, y, frame),
                "coordinate2": written_position(x2, y2, frame),
            }
        case PressKeys(keys=(key,)):
            return {"action": "key", "text": key}
        case (
            TypeText(text=text, clear=False, enter=False) | Answer(text=text) | OpenApp(app=text) | Interact(text=text)
        ):
            return {"action": action.kind, "text": text}
        case SystemButton(button=button):
            return {"action": "system_button", "button": button}
        case Wait(seconds=seconds):
            return {"action": "wait", "time": written_seconds(seconds)}
        case Terminate(status=status):
            return {"action": "terminate", "status": status}
        case _:
            return None
