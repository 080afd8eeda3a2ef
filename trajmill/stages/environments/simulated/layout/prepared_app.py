"""Computes once which values each page of an app shows; they are the cache key of a drawn screen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from trajmill.stages.environments.simulated.app_files.app_spec import (
    AnyWidget,
    AppSpec,
    Button,
    Item,
    ItemList,
    Scalar,
    Text,
    Toggle,
)
from trajmill.stages.environments.simulated.app_files.binding import names_in
from trajmill.stages.environments.simulated.app_files.pages import state_lists, variable_of, widgets_of
from trajmill.stages.environments.simulated.layout.profile import DeviceProfile


class PageReads(NamedTuple):
    """The names of the values and lists that a page shows."""

    values: tuple[str, ...]
    lists: tuple[str, ...]
    """Lists of the state; fixed lists are left out, because they never change."""


class PreparedApp(NamedTuple):
    """An app with everything that is computed once."""

    app: AppSpec
    reads: dict[str, PageReads]
    """The names that a page shows, by screen."""
    fixed: dict[int, dict[str, tuple[Item, ...]]]
    """The fixed lists by number of the device profile, of the profiles met so far."""

    def fixed_lists(self, profile: DeviceProfile) -> dict[str, tuple[Item, ...]]:
        """The fixed lists in the order of a device."""
        if profile.number not in self.fixed:
            self.fixed[profile.number] = profile.fixed_lists(self.app)
        return self.fixed[profile.number]


def prepare_app(app: AppSpec) -> PreparedApp:
    """Prepare an app."""
    own = state_lists(app)
    reads = {}
    for name, screen in app.screens.items():
        values = {*names_in(screen.title)}
        lists = set()
        for widget in widgets_of(screen):
            values.update(_values_read(widget))
            if isinstance(widget, ItemList) and widget.items in own:
                lists.add(widget.items)
        reads[name] = PageReads(tuple(sorted(values)), tuple(sorted(lists)))
    return PreparedApp(app, reads, {})


def _values_read(widget: AnyWidget) -> Iterator[str]:
    yield from widget.show_if
    texts: tuple[Scalar, ...] = ()
    match widget:
        case Text() | Toggle():
            texts = (widget.text,)
        case Button():
            texts = (widget.text,)
            yield from widget.needs
        case ItemList():
            texts = (widget.text, widget.note, *widget.where.values())
            if widget.search:
                yield widget.search
    for text in texts:
        yield from names_in(text)
    if variable_of(widget) and not isinstance(widget, ItemList):
        yield variable_of(widget)
