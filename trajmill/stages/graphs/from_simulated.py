"""Makes the graph of a simulated app from its YAML description."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from trajmill.schemas.tables.query import PathStep, Platform
from trajmill.stages.environments.simulated.app_files.app_spec import (
    AnyWidget,
    AppSpec,
    Button,
    Choice,
    Input,
    ItemList,
    Menu,
    ScreenSpec,
    Text,
    Toggle,
)
from trajmill.stages.environments.simulated.app_files.references import (
    BACK,
    menu_of,
    names_in,
    offered,
    shown,
    start_values,
    variable_of,
)
from trajmill.stages.graphs.base import (
    VALUE,
    AppGraph,
    Feature,
    GraphElement,
    GraphPage,
    GraphSlot,
    GraphTransition,
    Recogniser,
    SlotKind,
)
from trajmill.stages.graphs.simulated_answers import answers_of_page

_KINDS: dict[type[AnyWidget], SlotKind] = {
    Input: SlotKind.FIELD,
    Toggle: SlotKind.SWITCH,
    Choice: SlotKind.CHOICE,
    ItemList: SlotKind.LIST,
}
_TITLE = "title"
_NAME = re.compile(r"\$([A-Za-z_]\w*)")


def graph_of_app(app: AppSpec) -> AppGraph:
    """The graph of a simulated app: a page for each screen, and one for each open menu."""
    pages: dict[str, GraphPage] = {}
    for name, screen in app.screens.items():
        pages[_name(name)] = _page(app, name, screen)
        for menu in (widget for widget in screen.widgets if isinstance(widget, Menu)):
            pages[_menu_page(name, menu)] = _open_menu(app, name, screen, menu)
    # Icons of a desktop need a double click.
    opens = "double_tap" if app.platform is Platform.DESKTOP else "tap"
    return AppGraph(
        app=_name(app.app),
        title=app.name,
        description=app.description,
        platform=app.platform,
        opening=(PathStep(page="launcher", operation=opens, target=f"launcher/{app.app}"),),
        start=_name(app.first),
        pages=pages,
    )


def _page(app: AppSpec, name: str, screen: ScreenSpec) -> GraphPage:
    own = [widget for widget in screen.widgets if widget.id]
    return GraphPage(
        title=screen.title if "$" not in screen.title else name,
        description=screen.description,
        recognise=Recogniser(shows=(_heading(app, name),)),
        elements={_name(each.id): _element(app, name, each) for each in own if isinstance(each, Button | Menu)},
        slots={_name(each.id): _slot(app, name, each) for each in own if _slot_kind(each) is not None},
        transitions=tuple(_transitions(app, name, screen, own)),
        answers=answers_of_page(app, name, screen),
    )


def _heading(app: AppSpec, name: str) -> Feature:
    return Feature(role="heading", id=f"{app.app}.{name}/{_TITLE}")


def _open_menu(app: AppSpec, name: str, screen: ScreenSpec, menu: Menu) -> GraphPage:
    items = tuple(Feature(id=f"{app.app}.{name}/{item.id}") for item in menu.items if not item.show_if)
    return GraphPage(
        title=menu.text,
        description=f"The open menu {menu.text}.",
        recognise=Recogniser(shows=(_heading(app, name), *items)),
        elements={_name(item.id): _element(app, name, item) for item in menu.items},
        transitions=tuple(_transitions(app, name, screen, menu.items)),
    )


def _transitions(
    app: AppSpec, name: str, screen: ScreenSpec, widgets: Sequence[AnyWidget]
) -> Iterator[GraphTransition]:
    for widget in widgets:
        if isinstance(widget, Menu):
            yield GraphTransition(by=_name(widget.id), to=_menu_page(name, widget))
        elif isinstance(widget, Button | ItemList) and widget.to != BACK and (widget.to or widget.do):
            yield _transition(app, name, screen, widget)


def _transition(app: AppSpec, name: str, screen: ScreenSpec, widget: Button | ItemList) -> GraphTransition:
    in_menu = isinstance(widget, Button) and menu_of(screen, widget) is not None
    by_variable = {
        variable_of(each): _name(each.id) for each in screen.widgets if each.id and _slot_kind(each) is not None
    }
    needs = widget.needs if isinstance(widget, Button) and not in_menu else ()
    set_before = {variable: by_variable[variable] for variable in needs if variable in by_variable}
    if isinstance(widget, ItemList) and widget.variable:
        set_before |= {widget.variable: _name(widget.id)}
    slots = tuple(by_variable[variable] for variable in needs if variable in by_variable)
    to = widget.to or name
    return GraphTransition(
        by=_name(widget.id), slots=slots, to=_name(to), shows=tuple(_shown(app.screens[to], set_before))
    )


def _shown(screen: ScreenSpec, slots: dict[str, str]) -> Iterator[Feature]:
    """The texts of a page that say nothing but values of these slots, by variable."""
    for widget in screen.widgets:
        names = set(names_in(widget.text)) if isinstance(widget, Text) else set()
        if isinstance(widget, Text) and names and names <= slots.keys():
            text = _NAME.sub(lambda match: "{" + slots[match[1]] + "}", widget.text)
            yield Feature(role=widget.kind, text=text)


def _element(app: AppSpec, name: str, widget: Button | Menu) -> GraphElement:
    role = "menu" if isinstance(widget, Menu) else "button"
    return GraphElement(target=_target(app, name, widget), role=role, name=widget.text, does=_does(app, widget))


def _does(app: AppSpec, widget: Button | Menu) -> str:
    if isinstance(widget, Menu):
        return f"Opens the menu {widget.text}."
    if widget.to == BACK:
        return "Goes back."
    changes = "Changes the app and goes to" if widget.do else "Goes to"
    return f"{changes} {_name(widget.to)}." if widget.to else "Changes the app." if widget.do else ""


def _slot(app: AppSpec, name: str, widget: AnyWidget) -> GraphSlot:
    kind = _slot_kind(widget)
    assert kind is not None
    target = _target(app, name, widget)
    default = shown(start_values(app).get(variable_of(widget), ""))
    return GraphSlot(
        kind=kind,
        target=f"{target}/{VALUE}" if kind in (SlotKind.CHOICE, SlotKind.LIST) else target,
        name=_label(widget),
        values=tuple(shown(value) for value in offered(widget, app)),
        default=default,
    )


def _target(app: AppSpec, name: str, widget: AnyWidget) -> str:
    """The name of a widget in paths; the title of the page comes before a widget of the same id."""
    target = f"{app.app}.{name}/{widget.id}"
    return f"{target}#2" if widget.id == _TITLE else target


def _label(widget: AnyWidget) -> str:
    match widget:
        case Input():
            return widget.hint
        case Choice():
            return widget.label
        case Toggle():
            return widget.text
        case _:
            return widget.id


def _slot_kind(widget: AnyWidget) -> SlotKind | None:
    """The kind of slot that a widget is; None for a list that cannot be pressed, and for other widgets."""
    if isinstance(widget, ItemList) and not (widget.variable or widget.do or widget.to):
        return None
    return _KINDS.get(type(widget)) if widget.id else None


def _menu_page(name: str, menu: Menu) -> str:
    return f"{_name(name)}-{_name(menu.id)}-menu"


def _name(text: str) -> str:
    """An id of an app file as a name in a graph."""
    return re.sub(r"[^a-z0-9_-]+", "-", text.lower()).strip("-_")[:60] or "page"
