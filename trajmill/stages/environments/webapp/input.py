"""Does actions on the compiled app like a user: by touch on a phone, by mouse and keyboard on a desktop."""

from __future__ import annotations

from typing import NamedTuple

from playwright.async_api import CDPSession, Page

from trajmill.schemas.actions import (
    Action,
    Click,
    Drag,
    LongPress,
    OpenApp,
    PressKeys,
    Scroll,
    Swipe,
    SystemButton,
    TypeText,
)
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.browser.input import perform, perform_by_touch
from trajmill.stages.environments.simulated.layout.profile import metrics_of

_OPEN = "(name) => window.trajmill.open(name)"
_SHORTEST_SWIPE = 40
"""Least pixels of a finger's movement that scrolls, as in the simulated world."""
_BACK = PressKeys(keys=("alt", "left"))


class WebAppInput(NamedTuple):
    """The input devices of one page."""

    page: Page
    session: CDPSession
    platform: Platform
    scale: int
    """Screenshot pixels per CSS pixel."""

    async def do(self, action: Action, apps: dict[str, str]) -> None:
        """Do an action; one without a meaning on this platform changes nothing.

        Args:
            action: positions in pixels of the screenshot.
            apps: ids of the apps on the device, by name and by id, in lower case.

        Raises:
            playwright.async_api.Error: the page is gone.
        """
        phone = self.platform is Platform.PHONE
        match action:
            case OpenApp(app=app):
                if app.strip().casefold() in apps:
                    await self.page.evaluate(_OPEN, apps[app.strip().casefold()])
            case TypeText():
                await self._type(action)
            case PressKeys(keys=keys):
                await self._press(tuple(key.casefold().removeprefix("keycode_") for key in keys))
            case SystemButton(button=button) if phone:
                await self._press({"Back": ("back",), "Home": ("home",), "Enter": ("enter",)}.get(button, ()))
            case Click(button="left") if phone:
                # A phone has no double press.
                await self._touch(action.model_copy(update={"count": 1}))
            case Swipe(x=x, y=y, x2=x2, y2=y2) if phone and max(abs(x2 - x), abs(y2 - y)) < _SHORTEST_SWIPE:
                # The browser would interpret it as a press.
                return
            case Swipe() | LongPress() if phone:
                await self._touch(action)
            case Scroll():
                await perform(self.page, self._placed(action), self.scale)
            case Click() | Drag() | LongPress() if not phone:
                await perform(self.page, action, self.scale)
            case _:
                return

    async def _touch(self, action: Action) -> None:
        await perform_by_touch(self.page, self.session, action, self.scale, self.page.url)

    async def _type(self, action: TypeText) -> None:
        """Type text like an input method, so that no letter triggers a keyboard shortcut."""
        keyboard = self.page.keyboard
        if action.clear:
            await keyboard.press("Control+a")
            await keyboard.press("Delete")
        if action.text:
            await keyboard.insert_text(" ".join(action.text.split("\n")))
        if action.enter:
            await keyboard.press("Enter")

    async def _press(self, keys: tuple[str, ...]) -> None:
        match keys:
            case ("back",):
                await perform(self.page, _BACK, self.scale)
            case ("del",):
                await self.page.keyboard.press("Backspace")
            case _:
                await perform(self.page, PressKeys(keys=keys), self.scale)

    def _placed(self, action: Scroll) -> Scroll:
        """Put a scroll without a position in the middle of the screen, because the mouse may be anywhere."""
        if action.x is not None and action.y is not None:
            return action
        width, height = metrics_of(self.platform, 1.0).size
        return action.model_copy(update={"x": width // 2, "y": height // 2})
