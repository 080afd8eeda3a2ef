"""Finds replies that type a text which their prompt no longer holds: a row of them would teach to make texts up."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from trajmill.schemas.actions import Action, TypeText
from trajmill.schemas.observation import ScreenReader


def types_forgotten_text(
    action: Action, prompt: Sequence[str], shown: Collection[str], earlier: Sequence[str], screens: ScreenReader
) -> bool:
    """Whether a reply types what was read on an earlier screen, and neither its prompt nor its screens hold it.

    An agent that notes what it reads can carry a code from one app to another. A family whose history is its past
    actions, as the one published for Qwen2.5-VL, forgets the code with the screen.

    Args:
        action: what the reply does.
        prompt: the texts before the reply.
        shown: ids of the screens that the prompt shows.
        earlier: ids of all screens of the episode up to the reply.
        screens: reads the accessibility trees; a screen without a tree holds no text.
    """
    if not isinstance(action, TypeText):
        return False
    typed = action.text.casefold()
    if any(typed in text.casefold() for text in prompt):
        return False
    holds = {screen for screen in dict.fromkeys((*earlier, *shown)) if _holds(screens, screen, typed)}
    return bool(holds) and holds.isdisjoint(shown)


def _holds(screens: ScreenReader, screen: str, typed: str) -> bool:
    return any(
        typed in element.text.casefold() or typed in element.value.casefold() for element in screens.elements(screen)
    )
