"""An app file in the making: features add screens, state and tasks to it, and ways from the home screen."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple, TypeVar

from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.simulated.app_files.app_spec import Scalar
from trajmill.stages.environments.simulated.generated.grammar import Act, Domain, FieldKind, OwnTexts, Words

T = TypeVar("T")
Part = dict[str, Any]
"""A screen, widget, effect or task, as the file has it."""

_PLACEHOLDER = re.compile(r"<(\w+)>")
_BEFORE_VOWEL = re.compile(r"\b([Aa]) (?=[aeiouAEIOU])")
_PARTICLE = re.compile(r"\b(\w+) (out|off|back|away|down|up|in) it\b")
_RANGE = re.compile(r"(\d+)-(\d+)")
_MOST_STEPS = 4
"""Most presses of a stepper that a task asks for."""
_PHRASINGS, _HELDOUT_PHRASINGS = 6, 2
_CLAUSES = 3
_LAYOUTS = ("", "", "rows", "grid", "start", "end")


class FormField(NamedTuple):
    name: str
    """Its variable and slot."""
    label: str
    widget: Part
    values: tuple[Scalar, ...]
    """What a task can ask for."""
    clauses: list[str]
    is_quoted: bool

    def slot(self, page: str, optional: bool) -> Part:
        slot: Part = {"name": self.name, "page": page, "widget": self.widget["id"], "values": list(self.values)}
        return slot | ({"optional": True} if optional else {})

    @property
    def said(self) -> str:
        return f'"{{{self.name}}}"' if self.is_quoted else f"{{{self.name}}}"


@dataclass
class Draft:
    words: Words
    domain: Domain
    platform: Platform
    name: str
    random: Random
    variables: dict[str, Scalar] = field(default_factory=dict)
    lists: dict[str, list[Part]] = field(default_factory=dict)
    ordered: list[str] = field(default_factory=list)
    state: dict[str, Any] = field(default_factory=dict)
    screens: dict[str, Part] = field(default_factory=dict)
    tasks: dict[str, Part] = field(default_factory=dict)
    home: list[Part] = field(default_factory=list)
    home_list: list[Part] = field(default_factory=list)
    more: list[Part] = field(default_factory=list)

    def pick(self, options: Sequence[T]) -> T:
        return self.random.choice(options)

    def some(self, options: Sequence[T], least: int, most: int) -> list[T]:
        wanted = min(self.random.randint(least, most), len(options))
        chosen = self.random.sample(range(len(options)), wanted)
        return [options[at] for at in sorted(chosen)]

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def fill(self, template: str, **words: str) -> str:
        """Replace each `<word>`; `<Word>` has a capital letter."""
        known = {"app": self.name, "thing": self.domain.thing[0], "things": self.domain.thing[1]} | words
        text = _PLACEHOLDER.sub(lambda match: _in_case(match[1], known), template)
        return _PARTICLE.sub(r"\1 it \2", _BEFORE_VOWEL.sub(r"\1n ", text))

    def label(self, templates: Sequence[str], **words: str) -> str:
        return self.fill(self.pick(templates), **words)

    def add_screen(self, name: str, title: str, description: str, widgets: list[Part], **more: Any) -> None:
        layout = "" if more.get("dialog") else self.pick(_LAYOUTS)
        screen = {"title": title, "description": description, **more, **({"layout": layout} if layout else {})}
        self.screens[name] = screen | {"widgets": widgets}

    def enter(self, kind: str, screen: str, **words: str) -> Part:
        """Add a way from the home screen to a screen; return the pages of a task up to there, and the way's text."""
        taken = {button["text"] for button in (*self.home, *self.more)}
        texts = [self.fill(template, **words) for template in self.words.entry[kind]]
        text = self.pick([text for text in texts if text not in taken] or texts)
        place, pages = self.home, {"home": [screen]}
        if self.chance(0.2):
            place, pages = self.more, {"home": ["more"], "more": [screen]}
        place.append(button(f"to_{screen}", text, screen, style=self.pick(("", "primary"))))
        return {"pages": pages, "text": text}

    def form_field(self, feature: str, label: str, kind: FieldKind) -> FormField:
        """Make an input, and its variable with a start value."""
        name = f"{feature}_{slug(label)}"
        span = _RANGE.fullmatch(kind) if isinstance(kind, str) else None
        values: Sequence[Scalar]
        start: Scalar = ""
        if span:
            least, most = int(span[1]), int(span[2])
            control, start = {"kind": "stepper", "text": label, "minimum": least, "maximum": most}, least
            said, values = "count", range(least + 1, min(most, least + _MOST_STEPS) + 1)
        elif kind == "switch":
            control, start = {"kind": self.pick(("switch", "checkbox")), "text": label}, False
            said, values = "switch", (True,)
        elif isinstance(kind, OwnTexts) or kind == "note" or (kind in ("person", "place") and self.chance(0.5)):
            control, said = {"kind": "field", "hint": label}, "text"
            values = kind.texts if isinstance(kind, OwnTexts) else self.some(self.words.types[str(kind)], 6, 8)
        else:
            options = list(kind) if isinstance(kind, tuple) else self.some(self.words.types[str(kind)], 4, 6)
            if isinstance(kind, tuple):
                self.random.shuffle(options)
            control, said = {"kind": "choice", "label": label, "options": options}, "choice"
            start, values = options[0], options[1:]
        clauses = [
            self.fill(text, label=label.lower()).replace("{}", f"{{{name}}}")
            for text in self.some(self.words.clauses[said], _CLAUSES, _CLAUSES)
        ]
        widget = {"kind": control.pop("kind"), "id": slug(label), **control, "variable": name}
        self.variables[name] = start
        return FormField(name, label, widget, tuple(values), clauses, said == "text")

    def form_fields(self, feature: str, fields: Mapping[str, FieldKind], least: int, most: int) -> list[FormField]:
        chosen = self.some(tuple(fields.items()), least, most)
        return [self.form_field(feature, label, kind) for label, kind in chosen]

    def done_screen(self, name: str, title: str, shown: Mapping[str, str], drafts: Sequence[str]) -> None:
        """Add a screen that tells what was done; its button clears the drafts and goes home."""
        widgets: list[Part] = [{"kind": "value", "text": f"{label}: ${variable}"} for label, variable in shown.items()]
        widgets.append(button("done", self.pick(self.words.texts["done"]), "home", [{"reset": list(drafts)}]))
        self.add_screen(name, title, "Says what was done.", widgets)

    def confirmed(self, name: str, shown: str, do: list[Part], to: str, verb: str, style: str = "primary") -> None:
        text = self.label((verb.capitalize(), "Yes", "<Verb> it", "Yes, <verb>"), verb=verb)
        buttons = [button("keep", self.pick(self.words.texts["keep"]), "back"), button("confirm", text, to, do, style)]
        widgets: list[Part] = [{"kind": "text", "text": shown}, *buttons[:: self.pick((1, 1, -1))]]
        title = self.label(self.words.texts["ask"], verb=verb)
        self.add_screen(name, title, "Asks whether it should be done.", widgets, dialog=True)

    def add_task(self, name: str, kind: str, act: Act, task: Part, fields: Sequence[FormField] = ()) -> None:
        """Add a task with phrasings of a kind, of which `act` and `task["words"]` have the words.

        `fields` are its optional slots.
        """
        filled = task.pop("words")
        texts = []
        for template in self.random.sample(self.words.phrasings[kind], len(self.words.phrasings[kind])):
            verb = act.verbs[0] if self.chance(0.6) else self.pick(act.verbs)
            text = self.fill(template, **({"verb": verb, "noun": act.noun} | filled))
            texts.append(text if fields else text.replace("{clauses}", ""))
        self.tasks[name] = {
            "description": f"{act.verbs[0].capitalize()} {act.noun}",
            **task,
            "phrasings": texts[:_PHRASINGS],
            "heldout_phrasings": texts[_PHRASINGS : _PHRASINGS + _HELDOUT_PHRASINGS],
            **({"clauses": {each.name: each.clauses for each in fields}} if fields else {}),
        }

    def move_into_menus(self, name: str) -> None:
        """Move some buttons of a page into the menu bar of most desktop programs."""
        if self.platform is Platform.DESKTOP and self.chance(0.7):
            widgets = self.screens[name]["widgets"]
            moved = self.some([each for each in widgets if each["kind"] == "button"], 1, len(widgets))
            menus = [
                {"kind": "menu", "id": f"menu_{at}", "text": self.fill(text), "items": moved[at::2]}
                for at, text in enumerate(self.random.sample(self.words.texts["menus"], min(2, len(moved))))
            ]
            self.screens[name]["widgets"] = [*menus, *(each for each in widgets if each not in moved)]

    def as_file(self, app: str) -> Part:
        heading = [{"kind": "heading", "text": self.domain.about.rstrip(".")}] if self.chance(0.3) else []
        if self.more:
            text = self.label(self.words.entry["more"])
            self.home.append(button("to_more", text, "more"))
            self.add_screen("more", text, "Further pages of the app.", self.more)
        if self.chance(0.5):
            self.random.shuffle(self.home)
        self.add_screen("home", self.name, "Start page of the app.", [*heading, *self.home, *self.home_list])
        self.move_into_menus("home")
        used = {"lists": self.lists, "ordered": self.ordered, "state": self.state}
        return {
            "app": app,
            "name": self.name,
            "platform": self.platform.value,
            "description": self.domain.about,
            "color": self.pick(self.words.texts["colors"]),
            "symbol": self.name[:2],
            "variables": self.variables,
            **{key: value for key, value in used.items() if value},
            "first": "home",
            "screens": {"home": self.screens.pop("home"), **self.screens},
            "tasks": self.tasks,
        }


def button(name: str, text: str, to: str = "", do: Sequence[Part] = (), style: str = "") -> Part:
    given = {"style": style, "do": list(do), "to": to}
    return {"kind": "button", "id": name, "text": text} | {key: value for key, value in given.items() if value}


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def _in_case(name: str, words: Mapping[str, str]) -> str:
    text = words[name.lower()]
    return text[:1].upper() + text[1:] if name[0].isupper() else text
