"""The state machine of a simulated phone or desktop, without drawing."""

from __future__ import annotations

import random
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import NamedTuple

from trajmill.schemas.record import content_id
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.simulated.app_files import app_spec
from trajmill.stages.environments.simulated.app_files.app_spec import AppSpec, Item
from trajmill.stages.environments.simulated.app_files.references import BACK
from trajmill.stages.environments.simulated.layout.profile import DeviceProfile
from trajmill.stages.environments.simulated.layout.screens import (
    AppState,
    PageState,
    Popup,
    app_view,
    launcher_view,
    loading_view,
)
from trajmill.stages.environments.simulated.layout.view import PreparedApp, ScreenView
from trajmill.stages.environments.simulated.layout.widgets import Target, list_items
from trajmill.stages.environments.simulated.world import Store, World, apply_effects, copied, make_store

LONGEST_INPUT = 200
_END = 1_000_000
"""An offset below the end of every page, which the layout takes back to it."""

_OFFER = Popup("Try Plus for free", "One month on us, then 4.99 a month.", ("Close", "Learn more"))


class Surprise(NamedTuple):
    rating: bool
    sponsored: bool


NO_SURPRISE = Surprise(False, False)


def episode_chance(seed: int, query_id: str) -> random.Random:
    """Return the random numbers of an episode's faults; the first one decides its surprises."""
    return random.Random(int(content_id("faults", seed, query_id), 16))


@dataclass(slots=True)
class Surprises:
    """Iterates endlessly over the surprises of openings of apps, which happen at `rate`."""

    drawn: random.Random
    rate: float

    def __iter__(self) -> Iterator[Surprise]:
        return self

    def __next__(self) -> Surprise:
        happens, which = self.drawn.random() < self.rate, self.drawn.random()
        return Surprise(rating=happens and which < 0.5, sponsored=happens and which >= 0.5)


class StackedPage(NamedTuple):
    screen: str
    offset: int


def _opened(app: AppSpec, screen: str) -> StackedPage:
    return StackedPage(screen, _END if app.screens[screen].from_end else 0)


@dataclass(slots=True)
class RunningApp:
    prepared: PreparedApp
    store: Store
    stack: list[StackedPage]
    popup: Popup | None = None
    sponsored: bool = False

    @property
    def app(self) -> AppSpec:
        return self.prepared.app

    @property
    def has_dialog(self) -> bool:
        return len(self.stack) > 1 and self.app.screens[self.stack[-1].screen].dialog

    @property
    def visible(self) -> list[StackedPage]:
        return self.stack[-2:] if self.has_dialog else self.stack[-1:]

    def lists(self, profile: DeviceProfile) -> dict[str, tuple[Item, ...]]:
        return lists_of(self.prepared, profile, self.store)


def lists_of(prepared: PreparedApp, profile: DeviceProfile, store: Store) -> dict[str, tuple[Item, ...]]:
    lists = {**prepared.fixed_lists(profile), **{name: records.items for name, records in store.lists.items()}}
    for name, lacking in store.lacking:
        lists[name] = tuple(item for item in lists[name] if item.get("name") != lacking)
    return lists


def stack_after(app: AppSpec, stack: tuple[str, ...], to: str) -> tuple[str, ...]:
    """Return the back stack after going to a screen: an earlier one, or a new one that closes an open dialog."""
    if not to:
        return stack
    if to == BACK:
        return stack[:-1] if len(stack) > 1 else stack
    if to in stack:
        return stack[: stack.index(to) + 1]
    if len(stack) > 1 and app.screens[stack[-1]].dialog:
        stack = stack[:-1]
    return (*stack, to)


@dataclass(slots=True)
class Device:
    world: World
    platform: Platform
    profile: DeviceProfile
    foreground: str = ""
    offset: int = 0
    focus: str = ""
    replaces: bool = False
    """Whether the next text replaces the text of the focused input."""
    menu: str = ""
    loading: bool = False
    surprises: Iterator[Surprise] = field(default_factory=lambda: repeat(NO_SURPRISE))
    running: dict[str, RunningApp] = field(default_factory=dict)
    beside: str = ""
    """A generated app that the device has, with its neighbours, besides the apps that are not generated."""

    def running_app(self, app: str) -> RunningApp:
        if app not in self.running:
            prepared = self.world.prepared_apps[app]
            if prepared.app.platform is not self.platform:
                raise KeyError(app)
            stack = [_opened(prepared.app, prepared.app.first)]
            self.running[app] = RunningApp(prepared, make_store(prepared.app), stack)
        return self.running[app]

    def copy(self) -> Device:
        """Copy all that pressing changes; apps and profile are shared."""
        running = {
            name: replace(app, store=copied(app.store), stack=list(app.stack)) for name, app in self.running.items()
        }
        return replace(self, running=running, surprises=deepcopy(self.surprises))

    def icons(self) -> tuple[AppSpec, ...]:
        return self.profile.arrange("launcher", self.world.apps_on(self.platform, self.beside))

    def view(self) -> ScreenView:
        views = self.world.views
        if not self.foreground:
            key = (self.platform, self.profile, self.offset, self.beside)
            return views.view(key, lambda: launcher_view(self.icons(), self.platform, self.profile, self.offset))
        running = self.running[self.foreground]
        if self.loading:
            return views.view((self.foreground, self.profile), lambda: loading_view(running.app, self.profile))
        return views.view(self._key(running), lambda: app_view(self._state(running)))

    def press(self, target: Target | None) -> Target | None:
        """Press a target and return it; None, for a place that does not react, does nothing."""
        if self.menu and (target is None or target.act != "menu"):
            self.menu = ""
        if target is None:
            return None
        if target.act != "focus":
            self.focus = ""
        match target:
            case Target("open", _, str() as app):
                self.open(app)
            case Target("home"):
                self.leave()
            case Target("back"):
                self.back()
            case _:
                self._act_in_app(target, self.running[self.foreground])
        return target

    def open(self, app: str) -> None:
        """Bring an app to the front, on the page where it was left. Raises KeyError for an unknown app."""
        running = self.running_app(app)
        self.leave()
        self.foreground = app
        surprise = next(self.surprises)
        running.sponsored = surprise.sponsored
        if surprise.rating:
            running.popup = Popup(
                f"Enjoying {running.app.name}?", "Rate this app with five stars.", ("Not now", "Rate")
            )

    def leave(self) -> None:
        self.foreground, self.focus, self.menu, self.loading = "", "", "", False

    def back(self) -> None:
        if not self.foreground:
            return
        running = self.running[self.foreground]
        if self.focus and self.platform is Platform.PHONE:
            self.focus = ""
        elif self.menu:
            self.menu = ""
        elif running.popup:
            running.popup = None
        elif len(running.stack) > 1:
            running.stack.pop()
            self.focus = ""
        elif self.platform is Platform.PHONE:
            self.leave()

    def escape(self) -> None:
        running = self.running.get(self.foreground)
        if running and (self.focus or self.menu or running.popup or running.has_dialog):
            if self.platform is Platform.DESKTOP:
                self.focus = ""
            self.back()

    def enter(self) -> None:
        """Put the keyboard away; press the button that the focused input names."""
        widget, self.focus = self._focused(), ""
        if widget is not None and widget.enter:
            running = self.running[self.foreground]
            button = running.app.screens[running.stack[-1].screen].find(widget.enter)
            if isinstance(button, app_spec.Button) and button.is_enabled(running.store.values):
                self._act_in_app(Target("press", button), running)

    def hold(self, target: Target | None) -> None:
        """Press a list item for long, or with the right button."""
        if target and target.act == "pick" and isinstance(target.widget, app_spec.ItemList) and target.widget.hold:
            self.press(target._replace(act="hold"))

    def drag(self, start: Target | None, end: Target | None) -> bool:
        """Drag the knob of a slider from one of its marks to another; return whether there is a knob."""
        held = self.running[self.foreground].store.values if self.foreground else {}
        if not start or start.act != "slide" or not start.widget or held[start.widget.sets] != start.value:
            return False
        if end and (end.act, end.widget) == (start.act, start.widget):
            self.press(end)
        return True

    def scroll(self, down: bool) -> None:
        """Scroll by one page; a phone closes the keyboard first."""
        if self.platform is Platform.PHONE:
            self.focus = ""
        to = self.view().scroll.down if down else self.view().scroll.up
        if to is None:
            return
        if not self.foreground:
            self.offset = to
        elif self.running[self.foreground].popup is None:
            stack = self.running[self.foreground].stack
            stack[-1] = stack[-1]._replace(offset=to)

    def type_text(self, text: str, clear: bool) -> None:
        """Type into the focused input; the first text after it was focused replaces its text."""
        widget = self._focused()
        if widget is None:
            return
        values = self.running[self.foreground].store.values
        before = "" if clear or self.replaces else str(values[widget.variable])
        values[widget.variable] = (before + " ".join(text.split("\n")))[:LONGEST_INPUT]
        self.replaces = False

    def erase(self) -> None:
        """Remove the last character, or all text of an input that was just focused."""
        widget = self._focused()
        if widget is not None:
            values = self.running[self.foreground].store.values
            values[widget.variable] = "" if self.replaces else str(values[widget.variable])[:-1]
            self.replaces = False

    def _focused(self) -> app_spec.Input | None:
        if not self.focus:
            return None
        running = self.running[self.foreground]
        widgets = running.app.screens[running.stack[-1].screen].widgets
        return next((each for each in widgets if isinstance(each, app_spec.Input) and each.id == self.focus), None)

    def _act_in_app(self, target: Target, running: RunningApp) -> None:
        values = running.store.values
        match target:
            case Target("dismiss"):
                running.popup = None
            case Target("offer"):
                running.popup = _OFFER
            case Target("menu", app_spec.Menu() as menu):
                self.menu = "" if self.menu == menu.id else menu.id
            case Target("focus", app_spec.Input() as widget):
                self.focus, self.replaces = widget.id, True
            case Target("flip", app_spec.Toggle() as widget):
                values[widget.variable] = not values[widget.variable]
            case Target("choose" | "slide", app_spec.Choice() as widget, value):
                values[widget.variable] = value
            case Target("step", app_spec.Stepper() as widget, int() as step):
                number = int(values[widget.variable]) + step
                values[widget.variable] = min(max(number, widget.minimum), widget.maximum)
            case Target("press", app_spec.Button() as button):
                apply_effects(button.do, running.app, running.store)
                self._go(running, button.to)
            case Target("pick" | "hold" as act, app_spec.ItemList() as widget, name):
                items = list_items(widget, values, running.lists(self.profile))
                item: Item | None = next((each for each in items if each.get("name", "") == name), None)
                if widget.variable and item is not None and "name" in item:
                    values[widget.variable] = item["name"]
                if act == "pick":
                    apply_effects(widget.do, running.app, running.store, item)
                self._go(running, widget.to if act == "pick" else widget.hold)

    def _go(self, running: RunningApp, to: str) -> None:
        before = running.stack
        screens = stack_after(running.app, tuple(page.screen for page in before), to)
        kept = [page for page, screen in zip(before, screens, strict=False) if page.screen == screen]
        running.stack = [*kept, *(_opened(running.app, screen) for screen in screens[len(kept) :])]

    def _key(self, running: RunningApp) -> tuple[object, ...]:
        values, lists, reads = running.store.values, running.store.lists, running.prepared.reads
        pages = []
        for frame in running.visible:
            names = reads[frame.screen]
            pages.append((frame, tuple([values[n] for n in names.values]), tuple([lists[n].key for n in names.lists])))
        back = len(running.stack) > len(pages)
        state = (self.focus, self.menu, running.popup, running.sponsored, back, running.store.lacking)
        return (self.profile, self.foreground, state, tuple(pages))

    def _state(self, running: RunningApp) -> AppState:
        lists, values = running.lists(self.profile), dict(running.store.values)
        pages = tuple(PageState(frame.screen, frame.offset, values, lists) for frame in running.visible)
        back = len(running.stack) > len(pages)
        return AppState(running.app, self.profile, pages, back, self.focus, self.menu, running.popup, running.sponsored)
