"""Lay out a simulated screen: one list of parts gives both the scene and the accessibility tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.simulated.app_files.app_spec import AppSpec, Item, Menu, Scalar, ScreenSpec
from trajmill.stages.environments.simulated.app_files.references import bind_text
from trajmill.stages.environments.simulated.drawing.canvas import Scene, Shape
from trajmill.stages.environments.simulated.layout.profile import (
    KEYBOARD_TOP,
    DeviceProfile,
    Layout,
    Metrics,
    metrics_of,
)
from trajmill.stages.environments.simulated.layout.view import (
    PlacedRows,
    ScreenView,
    ScrollState,
    make_view,
    place_rows,
)
from trajmill.stages.environments.simulated.layout.widgets import (
    DrawnPart,
    PageContext,
    Target,
    WidgetRow,
    button_part,
    is_shown,
    page_rows,
    part,
)

DESKTOP_ACCENT = "#3C5A86"
_NO_SCROLL = ScrollState(0, None, None)


class Popup(NamedTuple):
    title: str
    text: str
    buttons: tuple[str, ...]


class PageState(NamedTuple):
    name: str
    offset: int
    values: Mapping[str, Scalar]
    lists: Mapping[str, tuple[Item, ...]]


class AppState(NamedTuple):
    app: AppSpec
    profile: DeviceProfile
    pages: tuple[PageState, ...]
    """The page on top; if it is a dialog, the page under it comes first."""
    can_go_back: bool
    focus: str
    menu: str
    popup: Popup | None
    sponsored: bool


class _PageLayout(NamedTuple):
    shapes: tuple[Shape, ...]
    parts: tuple[DrawnPart, ...]
    scroll: ScrollState


def launcher_view(apps: Sequence[AppSpec], platform: Platform, profile: DeviceProfile, offset: int) -> ScreenView:
    metrics = metrics_of(platform, profile.scale)
    size = metrics.size
    shapes = [Shape("wallpaper", Box(0, 0, size.width, size.height))]
    shapes += _system_bars(platform, metrics)
    viewport = Box(metrics.margin, metrics.top, size.width - metrics.margin, size.height - 56)
    name = "Desktop" if platform is Platform.DESKTOP else "Home screen"
    title = Box(metrics.margin, metrics.top - metrics.heading - 4, size.width - metrics.margin, metrics.top - 4)
    lines = [apps[start : start + metrics.columns] for start in range(0, len(apps), metrics.columns)]
    icons = [WidgetRow(metrics.icon.height, partial(_place_icons, line, metrics)) for line in lines]
    placed = place_rows(icons, viewport, metrics.gap, offset, "")
    parts = (_title(title, name, "launcher"), *_scroll_parts(placed, viewport, "launcher"), *placed.parts)
    scene = Scene(size, DESKTOP_ACCENT, profile.dark, (*shapes, *(each.shape for each in parts if each.shape.kind)))
    return make_view(scene, parts, placed.scroll, "")


def loading_view(app: AppSpec, profile: DeviceProfile) -> ScreenView:
    metrics = metrics_of(app.platform, profile.scale)
    box = Box(metrics.window.left + metrics.margin, metrics.top, metrics.window.right - metrics.margin, 0)
    title = _title(_title_box(metrics, False), "Loading", "loading")
    text = part("text", "text", box._replace(bottom=metrics.top + metrics.text), "One moment please...", "loading/text")
    parts = (title, text)
    shapes = (*_frame(app, metrics), *(each.shape for each in parts))
    return make_view(Scene(metrics.size, app.color, profile.dark, shapes), parts, _NO_SCROLL, app.app)


def app_view(state: AppState) -> ScreenView:
    metrics = metrics_of(state.app.platform, state.profile.scale)
    layers = [_page(state, metrics, state.pages[0])]
    layers += [_dialog(state, metrics, state.pages[1])] if state.pages[1:] else []
    layers += [_popup(state.popup, metrics)] if state.popup else []
    shapes = layers[0].shapes
    for layer in layers[1:]:
        shapes += (Shape("dim", Box(0, 0, 0, 0)), *layer.shapes)
    scene = Scene(metrics.size, state.app.color, state.profile.dark, shapes)
    return make_view(scene, layers[-1].parts, layers[-1].scroll, state.app.app)


def _page(state: AppState, metrics: Metrics, page: PageState) -> _PageLayout:
    screen = state.app.screens[page.name]
    is_top = page is state.pages[-1]
    context = _context(state, metrics, page, metrics.window.right - metrics.window.left - 2 * metrics.margin)
    desktop = state.app.platform is Platform.DESKTOP
    keyboard = bool(context.focus) and not desktop and is_top
    bottom = KEYBOARD_TOP if keyboard else metrics.window.bottom
    left = metrics.window.left + metrics.margin
    viewport = Box(left, metrics.top + metrics.gap, left + context.width, bottom - metrics.gap)
    placed = place_rows(list(page_rows(screen.widgets, context)), viewport, metrics.gap, page.offset, context.focus)
    bars = _bar_parts(state, metrics, context, screen)
    menu = _open_menu(context, bars) if state.menu and is_top else ()
    body = (*_scroll_parts(placed, viewport, context.page), *placed.parts)
    keys = _keyboard(metrics.size) if keyboard else ()
    parts = (*bars, *(() if menu else body), *menu, *keys)
    drawn = (*bars, *body, *menu, *keys)
    shapes = (*_frame(state.app, metrics), *(each.shape for each in drawn if each.shape.kind))
    return _PageLayout(shapes, parts, placed.scroll if not menu else _NO_SCROLL)


def _context(state: AppState, metrics: Metrics, page: PageState, width: int) -> PageContext:
    focus = state.focus if page is state.pages[-1] else ""
    name = f"{state.app.app}.{page.name}"
    own = state.app.screens[page.name].layout
    layout = (Layout(own) if own else state.profile.layout) if page is state.pages[0] else Layout.ROWS
    return PageContext(name, page.values, page.lists, metrics, width, focus, state.sponsored, layout)


def _frame(app: AppSpec, metrics: Metrics) -> tuple[Shape, ...]:
    window = metrics.window
    if app.platform is Platform.DESKTOP:
        wall = Shape("wallpaper", Box(0, 0, metrics.size.width, metrics.size.height), color=DESKTOP_ACCENT)
        bar = Shape("app_bar", window._replace(bottom=window.top + 44))
        menus = Shape("menu_bar", Box(window.left, window.top + 44, window.right, metrics.top))
        return wall, *_system_bars(app.platform, metrics)[:1], Shape("window", window), bar, menus
    bar = Shape("app_bar", Box(0, window.top, window.right, metrics.top))
    return *_system_bars(app.platform, metrics), bar


def _system_bars(platform: Platform, metrics: Metrics) -> tuple[Shape, ...]:
    width, height = metrics.size
    if platform is Platform.DESKTOP:
        return (Shape("taskbar", Box(0, height - 48, width, height)),)
    return (Shape("status_bar", Box(0, 0, width, metrics.window.top)),)


def _title_box(metrics: Metrics, after_back: bool) -> Box:
    window = metrics.window
    if window.left:
        return Box(window.left + (112 if after_back else 20), window.top + 4, window.right - 112, window.top + 40)
    return Box(148 if after_back else metrics.margin, window.top + 14, window.right - metrics.margin, metrics.top - 14)


def _title(box: Box, text: str, page: str) -> DrawnPart:
    heading = part("heading", "heading", box, text, f"{page}/title")
    assert heading.element is not None
    return heading._replace(element=heading.element._replace(states=("title",)))


def _bar_parts(state: AppState, metrics: Metrics, context: PageContext, screen: ScreenSpec) -> tuple[DrawnPart, ...]:
    """Title and Back; on a desktop also the window's Close, the menus and the button to the desktop."""
    box, window = _title_box(metrics, state.can_go_back), metrics.window
    parts = [_title(box, bind_text(screen.title, context.values), context.page)]
    if state.can_go_back:
        back = Box(window.left + 16, box.top, box.left - 12, box.bottom)
        parts.append(part("button", "button", back, "Back", f"{context.page}/back", Target("back")))
    if state.app.platform is not Platform.DESKTOP:
        return tuple(parts)
    close = Box(window.right - 96, box.top, window.right - 12, box.bottom)
    parts.append(part("button", "button", close, "Close", f"{context.page}/close", Target("home")))
    left, top = window.left + 12, window.top + 47
    for menu in screen.widgets:
        if isinstance(menu, Menu) and is_shown(menu, context.values):
            wide = 32 + 11 * len(menu.text)
            place = Box(left, top, left + wide, metrics.top - 3)
            made = part("menu", "menu", place, menu.text, f"{context.page}/{menu.id}", Target("menu", menu))
            parts.append(made._replace(shape=made.shape._replace(state="on")) if menu.id == state.menu else made)
            left += wide + 4
    home = Box(8, metrics.size.height - 44, 168, metrics.size.height - 4)
    return (*parts, part("button", "button", home, "Show desktop", "taskbar/desktop", Target("home")))


def _open_menu(context: PageContext, bars: Sequence[DrawnPart]) -> tuple[DrawnPart, ...]:
    opened = next(each for each in bars if each.target and each.shape.state == "on")
    menu = opened.target.widget if opened.target else None
    assert isinstance(menu, Menu)
    left, top, high, parts = opened.shape.box.left, context.metrics.top, 40, []
    for item in menu.items:
        if is_shown(item, context.values):
            made = button_part(item, context, Box(left, top, left + 260, top + high))
            assert made.element is not None
            shape = made.shape._replace(kind="menu_item")
            parts.append(made._replace(shape=shape, element=made.element._replace(role="menu_item")))
            top += high
    return tuple(parts)


def _scroll_parts(placed: PlacedRows, viewport: Box, page: str) -> tuple[DrawnPart, ...]:
    """The scrolling region as an element, and its scroll bar as a shape; nothing if all of it fits."""
    scroll, room = placed.scroll, viewport.bottom - viewport.top
    possible = (("scrollable_down", scroll.down), ("scrollable_up", scroll.up))
    states = tuple(name for name, to in possible if to is not None)
    if not states:
        return ()
    region = UIElement("list", "", viewport, states, "", f"{page}/scroll")
    top = viewport.top + scroll.offset * room // placed.content
    low = min(viewport.bottom, top + max(24, room * room // placed.content))
    thumb = Shape("scroll_bar", Box(viewport.right + 6, top, viewport.right + 14, low))
    return DrawnPart(Shape("", viewport), region), DrawnPart(thumb)


def _dialog(state: AppState, metrics: Metrics, page: PageState) -> _PageLayout:
    screen = state.app.screens[page.name]
    desktop = state.app.platform is Platform.DESKTOP
    width = metrics.dialog_width - 2 * metrics.margin
    context = _context(state, metrics, page, width)
    keyboard = bool(context.focus) and not desktop
    lowest = KEYBOARD_TOP if keyboard else metrics.window.bottom
    rows = list(page_rows(screen.widgets, context))
    content = sum(row.height + metrics.gap for row in rows)
    head = metrics.heading + 2 * metrics.gap
    box = _middle(metrics, head + content + metrics.gap, lowest)
    left = box.left + metrics.margin
    viewport = Box(left, box.top + head, left + width, box.bottom - metrics.gap)
    placed = place_rows(rows, viewport, metrics.gap, page.offset, context.focus)
    frame = DrawnPart(Shape("dialog", box), UIElement("dialog", bind_text(screen.title, page.values), box, (), "", ""))
    title = Box(left, box.top + metrics.gap, left + width - 100, box.top + metrics.gap + metrics.heading)
    heading = _title(title, bind_text(screen.title, page.values), context.page)
    close = Box(title.right + 10, title.top, box.right - metrics.margin, title.bottom)
    closing = (part("button", "button", close, "Close", f"{context.page}/close", Target("back")),) if desktop else ()
    keys = _keyboard(metrics.size) if keyboard else ()
    parts = (heading, frame, *closing, *_scroll_parts(placed, viewport, context.page), *placed.parts, *keys)
    return _PageLayout(_frame_first(frame, parts), parts, placed.scroll)


def _popup(popup: Popup, metrics: Metrics) -> _PageLayout:
    width = metrics.dialog_width - 2 * metrics.margin
    height = metrics.heading + metrics.text + len(popup.buttons) * (metrics.button + metrics.gap) + 4 * metrics.gap
    box = _middle(metrics, height, metrics.window.bottom)
    left, top = box.left + metrics.margin, box.top + metrics.gap
    frame = DrawnPart(Shape("dialog", box), UIElement("dialog", popup.title, box, (), "", ""))
    heading = _title(Box(left, top, left + width, top + metrics.heading), popup.title, "popup")
    top += metrics.heading + metrics.gap
    text = part("text", "text", Box(left, top, left + width, top + metrics.text), popup.text, "popup/text")
    top += metrics.text + metrics.gap
    parts = [heading, frame, text]
    for index, words in enumerate(popup.buttons):
        kind = "button" if index else "primary_button"
        place = Box(left, top, left + width, top + metrics.button)
        parts.append(part(kind, "button", place, words, f"popup/{index}", Target("dismiss")))
        top += metrics.button + metrics.gap
    return _PageLayout(_frame_first(frame, parts), tuple(parts), _NO_SCROLL)


def _frame_first(frame: DrawnPart, parts: Sequence[DrawnPart]) -> tuple[Shape, ...]:
    """The shapes of a dialog; the title comes first in the tree but is drawn on the dialog."""
    return frame.shape, *(each.shape for each in parts if each is not frame and each.shape.kind)


def _middle(metrics: Metrics, height: int, lowest: int) -> Box:
    window = metrics.window
    highest = window.top + metrics.margin
    height = min(height, lowest - metrics.margin - highest)
    left = (window.left + window.right - metrics.dialog_width) // 2
    top = (highest + lowest - metrics.margin - height) // 2
    return Box(left, top, left + metrics.dialog_width, top + height)


@lru_cache(maxsize=4)
def _keyboard(size: Size) -> tuple[DrawnPart, ...]:
    board = Box(0, KEYBOARD_TOP, size.width, size.height)
    parts = [DrawnPart(Shape("keyboard", board), UIElement("keyboard", "", board, (), "", "keyboard"))]
    high, gap = 100, 10
    for number, letters in enumerate(("qwertyuiop", "asdfghjkl", "zxcvbnm")):
        wide = (size.width - 11 * gap) // 10
        left = (size.width - len(letters) * (wide + gap) + gap) // 2
        top = board.top + gap + number * (high + gap)
        for at, letter in enumerate(letters):
            key = left + at * (wide + gap)
            parts.append(DrawnPart(Shape("key", Box(key, top, key + wide, top + high), letter)))
    top = board.top + gap + 3 * (high + gap)
    for left, right, words in ((10, 130, "123"), (140, 560, "space"), (570, 710, "Enter")):
        parts.append(DrawnPart(Shape("key", Box(left, top, right, top + high), words)))
    return tuple(parts)


def _place_icons(apps: Sequence[AppSpec], metrics: Metrics, left: int, top: int, bottom: int) -> tuple[DrawnPart, ...]:
    wide, high = metrics.icon
    space = (metrics.size.width - 2 * metrics.margin - metrics.columns * wide) // (metrics.columns - 1)
    parts = []
    for column, app in enumerate(apps):
        start = left + column * (wide + space)
        box = Box(start, top, start + wide, min(top + high, bottom))
        opens = Target("open", None, app.app)
        parts.append(
            part("icon", "icon", box, app.name, f"launcher/{app.app}", opens, note=app.symbol, color=app.color)
        )
    return tuple(parts)
