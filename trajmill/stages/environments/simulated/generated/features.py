"""The features of generated apps: each adds its screens, its state and its tasks to a draft."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from trajmill.stages.environments.simulated.generated.draft import Draft, FormField, Part, button, slug
from trajmill.stages.environments.simulated.generated.grammar import Act

_WHEN: tuple[tuple[str, ...], ...] = ((), (), (), ("day",), ("time",), ("day", "time"))
_SAID_WHEN = {"day": "on {day}", "time": "at {time}"}


class Listed(NamedTuple):
    chain: list[str]
    """Its page; or the page of the groups and that of the items."""
    pages: Part
    """The way there."""
    slots: list[Part]


def add_order(draft: Draft) -> None:
    """A list of things, perhaps their pages, a day and a time, then a form, perhaps a dialog: one more record."""
    act, one = draft.domain.order, draft.domain.thing[0]
    act = act.model_copy(update={"verbs": (draft.pick(act.verbs), *act.verbs)})
    words = {"verb": act.verbs[0], "noun": act.noun}
    about = draft.domain.trait[1]
    draft.lists["things"] = [
        {"name": name, "about": draft.pick(about)} for name in draft.some(draft.domain.items, 6, 14)
    ]
    draft.state["records"], draft.variables["thing"] = [], ""
    fields, when = draft.form_fields("form", act.fields, 1, 4), draft.pick(_WHEN)
    pages = ["thing"] * draft.chance(0.3) + [f"pick_{kind}" for kind in when] + ["form"]
    pages += ["confirm"] * draft.chance(0.4) + ["done"]
    following = dict(pairwise(pages))
    found = _listed(draft, "things", "order", "thing", pages[0], words)
    if "thing" in following:
        _detail(draft, "thing", "things", {})
        go = button("go", draft.label(draft.words.texts["mark"][:2], **words), following["thing"], style="primary")
        draft.screens["thing"]["widgets"].append(go)
    for kind in when:
        _typed_page(draft, kind, following[f"pick_{kind}"])
    record: Part = {"name": "$thing", **{kind: f"${kind}" for kind in when}}
    record |= {slug(each.label): f"${each.name}" for each in fields}
    append, shown = [{"append": {"records": record}}], "$thing" + "".join(f", ${kind}" for kind in when)
    _form(draft, "form", fields, append, following["form"], words, shown)
    if "confirm" in following:
        draft.confirmed("confirm", shown, append, "done", act.verbs[0])
    said = {one.capitalize(): "thing"} | {kind.capitalize(): kind for kind in when}
    said |= {each.label: each.name for each in fields}
    draft.done_screen("done", draft.label(draft.words.texts["saved"], **words), said, list(said.values()))
    slots = found.slots + [{"name": kind, "page": f"pick_{kind}", "widget": "times"} for kind in when]
    task = {
        "pages": _pages(found.pages, [*found.chain, *pages]),
        "slots": slots + [each.slot("form", optional=True) for each in fields],
        "goal": {"records": {"append": record}},
        "words": {"item": "{thing}", "when": "".join(f" {_SAID_WHEN[kind]}" for kind in when)},
    }
    draft.add_task("order", "order", act, task, fields)


def add_create(draft: Draft) -> None:
    """A form whose first field is required: one more record."""
    act = draft.domain.create
    act = act.model_copy(update={"verbs": (draft.pick(act.verbs), *act.verbs)})
    words = {"verb": act.verbs[0], "noun": act.noun}
    labels = list(act.fields.items())
    first = draft.form_field("new", *labels[0])
    fields = draft.form_fields("new", dict(labels[1:]), 1, 2)
    draft.state["made"] = []
    pages = ["new", *["new_confirm"] * draft.chance(0.2), "new_done"]
    entry = draft.enter("create", "new", **words)
    record = {"name": f"${first.name}", **{slug(each.label): f"${each.name}" for each in fields}}
    append = [{"append": {"made": record}}]
    _form(draft, "new", [first, *fields], append, pages[1], words)
    if "new_confirm" in pages:
        draft.confirmed("new_confirm", f"${first.name}", append, "new_done", act.verbs[0])
    said = {each.label: each.name for each in (first, *fields)}
    draft.done_screen("new_done", draft.label(draft.words.texts["saved"], **words), said, list(said.values()))
    task = {
        "pages": _pages(entry["pages"], pages),
        "slots": [first.slot("new", optional=False), *(each.slot("new", optional=True) for each in fields)],
        "goal": {"made": {"append": record}},
        "words": {"label": first.label.lower(), "value": first.said},
    }
    draft.add_task("create", "create", act, task, fields)


def add_records(draft: Draft) -> None:
    """The user's own things: each has a page on which it is marked, moved or removed."""
    domain, (place, targets) = draft.domain, draft.domain.moves
    marks = draft.some(tuple(domain.marks.items()), 1, 2)
    same = {"place": targets[0], **{slug(past): "no" for _, past in marks}}
    names, about = draft.some(domain.items, 5, 9), domain.trait[1]
    draft.state["own"] = [{"name": name, "about": draft.pick(about), **same} for name in names]
    draft.variables["own_thing"] = ""
    found = _listed(draft, "own", "records", "own_thing", "own_thing", {})
    _detail(draft, "own_thing", "own", {place: "place"} | {past.capitalize(): slug(past) for _, past in marks})
    before = _pages(found.pages, [*found.chain, "own_thing"])
    for verb, past in marks:
        _add_mark(draft, verb, past, before, found.slots)
    if draft.chance(0.6):
        _add_move(draft, before, found.slots)
    if draft.chance(0.7):
        _add_removal(draft, before, found.slots)
    draft.move_into_menus("own_thing")


def _add_mark(draft: Draft, verb: str, past: str, before: Part, slots: list[Part]) -> None:
    name, one, words = slug(verb), draft.domain.thing[0], {"verb": verb, "past": past}
    do = [{"update": "own", "name": "$own_thing", "fields": {slug(past): "yes"}}]
    done = f"{name}_done" if draft.chance(0.3) else ""
    if done:
        draft.done_screen(done, draft.label(draft.words.texts["saved"], noun=one, **words), {}, ["own_thing"])
    draft.screens["own_thing"]["widgets"].append(
        button(name, draft.label(draft.words.texts["mark"], **words), done, do)
    )
    task = {
        "pages": before | ({"own_thing": [done], done: []} if done else {}),
        "slots": slots,
        "always": {} if done else {"own_thing": {name: True}},
        "goal": {"own": {"name": "$own_thing", "update": {slug(past): "yes"}}},
        "words": words | {"item": "{own_thing}"},
    }
    draft.add_task(name, "mark", Act(verbs=(verb,), noun=one, fields={}), task)


def _add_move(draft: Draft, before: Part, slots: list[Part]) -> None:
    place, targets = draft.domain.moves
    draft.lists["targets"] = [{"name": name} for name in targets[1:]]
    draft.variables["target"] = ""
    text = draft.label(draft.words.texts["move"], label=place.lower())
    draft.screens["own_thing"]["widgets"].append(button("move", text, "move"))
    do = [{"update": "own", "name": "$own_thing", "fields": {"place": "{name}"}}]
    pick = {"kind": "list", "id": "targets", "items": "targets", "variable": "target", "do": do, "to": "moved"}
    draft.add_screen("move", text, f"Every {place.lower()}.", [{"kind": "value", "text": "$own_thing"}, pick])
    shown = {draft.domain.thing[0].capitalize(): "own_thing", place: "target"}
    draft.done_screen("moved", draft.label(draft.words.titles["moved"]), shown, ["own_thing", "target"])
    task = {
        "pages": {**before, "own_thing": ["move"], "move": ["moved"], "moved": []},
        "slots": [*slots, {"name": "target", "page": "move", "widget": "targets"}],
        "goal": {"own": {"name": "$own_thing", "update": {"place": "$target"}}},
        "words": {"item": "{own_thing}", "target": "{target}", "label": place.lower()},
    }
    draft.add_task("move", "move", Act(verbs=("move",), noun=draft.domain.thing[0], fields={}), task)


def _add_removal(draft: Draft, before: Part, slots: list[Part]) -> None:
    verb, one = draft.pick(draft.domain.removes), draft.domain.thing[0]
    text = draft.label(("<Verb>", "<Verb> <thing>", "<Verb> it"), verb=verb)
    draft.screens["own_thing"]["widgets"].append(button("remove", text, "remove", style="danger"))
    do = [{"remove": "own", "name": "$own_thing"}]
    draft.confirmed("remove", "$own_thing", do, "removed", verb, style="danger")
    title = draft.label(("<Thing> gone", "Done", "That is done", "It is gone"))
    draft.done_screen("removed", title, {one.capitalize(): "own_thing"}, ["own_thing"])
    task = {
        "pages": {**before, "own_thing": ["remove"], "remove": ["removed"], "removed": []},
        "slots": slots,
        "goal": {"own": {"name": "$own_thing", "remove": True}},
        "words": {"item": "{own_thing}"},
    }
    draft.add_task("remove", "remove", Act(verbs=(verb, verb, *draft.domain.removes), noun=one, fields={}), task)


def add_settings(draft: Draft) -> None:
    """Choices and switches that last."""
    fields = draft.form_fields("set", draft.domain.settings, 2, 3)
    for each in fields:
        draft.state[each.name] = draft.variables.pop(each.name)
    entry = draft.enter("settings", "settings")
    draft.add_screen("settings", entry["text"], "What lasts.", [each.widget for each in fields])
    switch = next((each for each in fields if each.values == (True,)), None)
    for each in fields:
        is_switch = each is switch
        extra = [switch] if switch and not is_switch and draft.chance(0.4) else []
        slots = [] if is_switch else [each.slot("settings", optional=False)]
        task = {
            "pages": _pages(entry["pages"], ["settings"]),
            "slots": slots + [one.slot("settings", optional=True) for one in extra],
            "always": {"settings": {each.widget["id"]: True}} if is_switch else {},
            "goal": {each.name: True} if is_switch else {one.name: f"${one.name}" for one in (each, *extra)},
            "words": {"label": each.label.lower(), "value": each.said, "entry": entry["text"].lower()},
        }
        act = Act(verbs=("set",), noun=each.label.lower(), fields={})
        draft.add_task(each.name, "switch" if is_switch else "set", act, task, extra)


FEATURES = (add_order, add_create, add_records, add_settings)


def _pages(before: Part, chain: list[str]) -> Part:
    """The pages of a task: the way to the first page of a chain, then the chain."""
    return {**before, **{page: [following] for page, following in pairwise(chain)}, chain[-1]: []}


def _listed(draft: Draft, name: str, kind: str, variable: str, to: str, words: dict[str, str]) -> Listed:
    """Put a list of items on the home screen or on a page of its own, perhaps behind a list of their groups."""
    items: list[Part] = draft.lists.get(name) or draft.state[name]
    listed: Part = {"kind": "list", "id": name, "items": name, "note": "{about}", "variable": variable, "to": to}
    slots: list[Part] = [{"name": variable, "page": name, "widget": name}]
    title = draft.label(draft.words.titles["order"])
    if not draft.chance(0.3):
        return _entered(draft, Listed([name], {}, slots), kind, title, _searched(draft, listed), words)
    group = f"{name}_group"
    draft.lists[f"{group}s"] = [{"name": value} for value in dict.fromkeys(str(item["about"]) for item in items)]
    draft.variables[group] = ""
    draft.add_screen(
        name, f"${group}", f"Some of the {draft.domain.thing[1]}.", [listed | {"where": {"about": f"${group}"}}]
    )
    groups = {"kind": "list", "id": group, "items": f"{group}s", "variable": group, "to": name}
    implied = {"slot": variable, "list": name, "field": "about"}
    slots.insert(0, {"name": group, "page": group, "widget": group, "implied_by": implied})
    return _entered(draft, Listed([group, name], {}, slots), kind, title, [groups], words)


def _entered(draft: Draft, found: Listed, kind: str, title: str, widgets: list[Part], words: dict[str, str]) -> Listed:
    """Give the first page of a list its place."""
    page, *others = found.chain
    if not draft.home_list and draft.chance(0.35):
        draft.home_list += widgets
        slots = [slot | ({"page": "home"} if slot["page"] == page else {}) for slot in found.slots]
        return Listed(["home", *others], {}, slots)
    entry = draft.enter(kind, page, **words)
    description = f"All the {draft.domain.thing[1]} to choose from."
    draft.add_screen(page, title if kind == "order" else entry["text"], description, widgets)
    return found._replace(pages=entry["pages"])


def _searched(draft: Draft, listed: Part) -> list[Part]:
    if not draft.chance(0.3):
        return [listed]
    words = f"{listed['id']}_words"
    draft.variables[words] = ""
    hint = draft.label(("Search", "Search <things>", "Find"))
    return [{"kind": "search", "id": words, "hint": hint, "variable": words}, listed | {"search": words}]


def _detail(draft: Draft, name: str, items: str, facts: dict[str, str]) -> None:
    facts = {draft.domain.trait[0]: "about"} | facts
    shown: Part = {"kind": "list", "items": items, "where": {"name": f"${name}"}}
    widgets = [shown | {"id": fact, "text": f"{label}: {{{fact}}}"} for label, fact in facts.items()]
    draft.add_screen(name, f"${name}", f"One {draft.domain.thing[0]}.", widgets)


def _typed_page(draft: Draft, kind: str, to: str) -> None:
    draft.lists[f"{kind}s"] = [{"name": value} for value in draft.some(draft.words.types[kind], 5, 8)]
    draft.ordered.append(f"{kind}s")
    draft.variables[kind] = ""
    listed = {"kind": "list", "id": "times", "items": f"{kind}s", "variable": kind, "to": to}
    draft.add_screen(f"pick_{kind}", draft.label(draft.words.titles[kind]), f"The {kind}s to choose from.", [listed])


def _form(
    draft: Draft, name: str, fields: list[FormField], do: list[Part], to: str, words: dict[str, str], shown: str = ""
) -> None:
    """A form; its button does the effects unless a dialog comes first."""
    save = button(
        "save", draft.label(draft.words.texts["confirm"], **words), to, () if "confirm" in to else do, "primary"
    )
    if name == "new" and fields[0].is_quoted:
        save["needs"] = [fields[0].name]
    head = [{"kind": "value", "text": shown}] if shown and draft.chance(0.6) else []
    widgets = [*head, *(each.widget for each in fields), save]
    draft.add_screen(name, draft.label(draft.words.titles["form"], **words), "The details.", widgets)
