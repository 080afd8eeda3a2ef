"""Makes the graph of a simulated app from its YAML description."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain

from trajmill.schemas.tables.query import PathStep, Platform
from trajmill.stages.environments.simulated.app_files.app_spec import (
    AnyWidget,
    AppSpec,
    Button,
    Choice,
    Input,
    Item,
    ItemList,
    Menu,
    ScreenSpec,
    Text,
    Toggle,
)
from trajmill.stages.environments.simulated.app_files.references import BACK, names_in, offered, shown
from trajmill.stages.graphs.base import (
    ANSWER,
    VALUE,
    AppGraph,
    Feature,
    GraphAnswer,
    GraphElement,
    GraphPage,
    GraphSlot,
    GraphTransition,
    Mark,
    Recogniser,
    SlotKind,
)

_KINDS: dict[type[AnyWidget], SlotKind] = {
    Input: SlotKind.FIELD,
    Toggle: SlotKind.SWITCH,
    Choice: SlotKind.CHOICE,
    ItemList: SlotKind.LIST,
}
_TITLE = "title"
_NAME = re.compile(r"\$([A-Za-z_]\w*)")
_ONE_FIELD = re.compile(r"([^{}]*)\{(\w+)\}")
"""The text of a list that tells one field of its item, e.g. `Day: {day}`."""
_TIME = re.compile(r"\d\d:\d\d")
_TIMES = tuple(f"{hour:02}:{minute}" for minute in (25, 50) for hour in range(5, 24))
"""Names for new items, if theirs are times; other items can have any."""
_FREE = re.compile(r"[^\d]+ [^\d]+")
"""A text that somebody has made up, and not one of a few."""
_FEWEST_TEXTS = 3


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
        recognise=Recogniser(shows=(Feature(role="heading", id=f"{app.app}.{name}/{_TITLE}"),)),
        elements={_name(each.id): _element(app, name, each) for each in own if isinstance(each, Button | Menu)},
        slots={_name(each.id): _slot(app, name, each, kind) for each in own if (kind := _slot_kind(each)) is not None},
        transitions=tuple(_transitions(app, name, screen, own)),
        answers={
            widget.id: answer
            for widget in screen.widgets
            if isinstance(widget, ItemList) and not _is_pressed(widget)
            for answer in _answers(app, name, widget)
        },
    )


def _open_menu(app: AppSpec, name: str, screen: ScreenSpec, menu: Menu) -> GraphPage:
    items = tuple(Feature(id=f"{app.app}.{name}/{item.id}") for item in menu.items if not item.show_if)
    return GraphPage(
        title=menu.text,
        description=f"The open menu {menu.text}.",
        recognise=Recogniser(shows=(Feature(role="heading", id=f"{app.app}.{name}/{_TITLE}"), *items)),
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
        if isinstance(widget, ItemList) and widget.hold:
            held = widget.model_copy(update={"to": widget.hold, "do": ()})
            yield _transition(app, name, screen, held).model_copy(update={"operation": "hold"})


def _transition(app: AppSpec, name: str, screen: ScreenSpec, widget: Button | ItemList) -> GraphTransition:
    in_menu = isinstance(widget, Button) and screen.menu_of(widget) is not None
    by_variable = {each.sets: _name(each.id) for each in screen.widgets if _slot_kind(each) is not None}
    needs = widget.needs if isinstance(widget, Button) and not in_menu else ()
    set_before = {variable: by_variable[variable] for variable in needs if variable in by_variable}
    slots, to = tuple(set_before.values()), widget.to or name
    if isinstance(widget, ItemList) and widget.variable:
        set_before[widget.variable] = _name(widget.id)
    shows, marks = tuple(_shown(app.screens[to], set_before)), (Mark.CHANGES,) if widget.do else ()
    return GraphTransition(by=_name(widget.id), slots=slots, to=_name(to), shows=shows, marks=marks)


def _shown(screen: ScreenSpec, slots: dict[str, str]) -> Iterator[Feature]:
    """The texts of a page that say nothing but values of these slots, by variable."""
    for widget in screen.widgets:
        names = set(names_in(widget.text)) if isinstance(widget, Text) else set()
        if isinstance(widget, Text) and names and names <= slots.keys():
            text = _NAME.sub(lambda match: "{" + slots[match[1]] + "}", widget.text)
            yield Feature(role=widget.kind, text=text)


def _element(app: AppSpec, name: str, widget: Button | Menu) -> GraphElement:
    if isinstance(widget, Menu):
        role, does = "menu", f"Opens the menu {widget.text}."
    elif widget.to == BACK:
        role, does = "button", "Goes back."
    elif widget.to:
        changes = "Changes the app and goes to" if widget.do else "Goes to"
        role, does = "button", f"{changes} {_name(widget.to)}."
    else:
        role, does = "button", "Changes the app." if widget.do else ""
    return GraphElement(target=_target(app, name, widget), role=role, name=widget.text, does=does)


def _slot(app: AppSpec, name: str, widget: AnyWidget, kind: SlotKind) -> GraphSlot:
    target = _target(app, name, widget)
    match widget:
        case Input():
            label = widget.hint
        case Choice():
            label = widget.label
        case Toggle():
            label = widget.text
        case _:
            label = widget.id
    return GraphSlot(
        kind=kind,
        target=f"{target}/{VALUE}" if isinstance(widget, Choice | ItemList) else target,
        name=label,
        values=tuple(shown(value) for value in offered(widget, app)),
        default=shown(app.start_values().get(widget.sets, "")),
    )


def _target(app: AppSpec, name: str, widget: AnyWidget) -> str:
    """The name of a widget in paths; the title of the page comes before a widget of the same id."""
    target = f"{app.app}.{name}/{widget.id}"
    return f"{target}#2" if widget.id == _TITLE else target


def _slot_kind(widget: AnyWidget) -> SlotKind | None:
    """The kind of slot that a widget is; None for a list that cannot be pressed, and for other widgets."""
    if not widget.id or (isinstance(widget, ItemList) and not _is_pressed(widget)):
        return None
    return _KINDS.get(type(widget))


def _is_pressed(items: ItemList) -> bool:
    return bool(items.variable or items.do or items.to)


def _picking(app: AppSpec) -> list[ItemList]:
    """The lists of an app that set a variable to the pressed item."""
    widgets = chain.from_iterable(screen.widgets for screen in app.screens.values())
    return [widget for widget in widgets if isinstance(widget, ItemList) and widget.variable]


def _menu_page(name: str, menu: Menu) -> str:
    return f"{_name(name)}-{_name(menu.id)}-menu"


def _name(text: str) -> str:
    return re.sub(r"[^a-z0-9_-]+", "-", text.lower()).strip("-_")[:60] or "page"


def _answers(app: AppSpec, page: str, told: ItemList) -> Iterator[GraphAnswer]:
    """Yield the answer of a widget that shows one item.

    An item of the app's state can be prepared with any answer; the answers about other items are known.
    """
    match, picked = _ONE_FIELD.fullmatch(told.text), str(told.where.get("name", ""))
    lists = [each for each in _picking(app) if f"${each.variable}" == picked]
    if match is None or len(lists) != 1 or lists[0].items != told.items or lists[0].to != page or not lists[0].id:
        return
    [asked], (label, field) = lists, match.groups()
    items = app.all_lists()[told.items]
    texts = [text for item in items if isinstance(text := item.get(field), str)]
    # An answer that is the same for all could be guessed; one that decides where the item is listed gives itself away.
    if field == "name" or field in asked.where or len(texts) < len(items) or len(set(texts)) < _FEWEST_TEXTS:
        return
    can_be_prepared = told.items in app.state_lists()
    names = {shown(item["name"]) for item in items}
    times = tuple(each for each in _TIMES if each not in names) if all(map(_TIME.fullmatch, names)) else ()
    place, called = f"{{{asked.id}}}", label.strip(" :").lower() if field == "text" else field
    yield GraphAnswer(
        target=f"{app.app}.{page}/{told.id}/{place}",
        of=asked.id,
        text=f"{label}{ANSWER}",
        name=f"the {called} of the {page} {place}" if label else f"what the {page} {place} says",
        known={} if can_be_prepared else {str(item["name"]): str(item[field]) for item in items},
        prepare=_prepared(app, asked, items[0], field) if can_be_prepared else {},
        names=times,
        values=() if not label or any(map(_FREE.fullmatch, texts)) else tuple(dict.fromkeys(texts)),
    )


def _prepared(app: AppSpec, asked: ItemList, like: Item, field: str) -> dict[str, object]:
    """Return the start state with a new item in the list, with the fields by which the list selects its items."""
    by_variable = {f"${each.variable}": f"{{{each.id}}}" for each in _picking(app) if each.id}
    listed = {name: by_variable.get(str(value), value) for name, value in asked.where.items()}
    record = {**like, **listed, "name": f"{{{asked.id}}}", field: ANSWER}
    return {"setup": {f"{app.app}.{asked.items}": record}}
