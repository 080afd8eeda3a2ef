"""Finds the slots of a page: fields that took a text, switches, and lists of which one item is pressed."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from trajmill.schemas.observation import UIElement
from trajmill.stages.graphs.base import VALUE, GraphSlot, SlotKind, ValueType
from trajmill.stages.graphs.explore.base import BOX, FIELDS, SWITCHES, Trial, TrialKind, WalkedScreen, taken_text
from trajmill.stages.graphs.explore.forms import forms_of, radio_groups, values_for
from trajmill.stages.graphs.explore.naming import (
    is_sentence,
    is_unlabelled,
    label_beside,
    label_of,
    name_by_row,
    slug,
    unique,
)
from trajmill.stages.graphs.explore.pages import FoundPage
from trajmill.stages.graphs.explore.plan import KEYS, items_of, keys_on, lists_of
from trajmill.stages.graphs.operations import BOX_OF, OFF, ON, keys_of
from trajmill.stages.graphs.recognise import is_marked
from trajmill.stages.graphs.sentences import starts_with_verb
from trajmill.stages.graphs.values import examples, results, type_of

_MOST_ITEMS = 40
"""Most items of a list that can be asked for."""
_MOST_INDENT = 40
_HEADS = ("text", "heading")


class PopupOption(NamedTuple):
    text: str
    target: str
    shown: str
    """What the box shows once the option is chosen."""


class FoundSlot(NamedTuple):
    name: str
    slot: GraphSlot
    targets: tuple[str, ...]
    verb: str = ""
    """For a list: what each of its elements says, e.g. `Like`."""

    @property
    def does(self) -> str:
        """What a press on an item does, in words of the app; empty if these say only the item."""
        verb = re.sub(r"^\W+", "", self.verb)
        if not verb or "{" in verb:
            return ""
        if starts_with_verb(verb):
            return f"{verb.capitalize()} {'for ' if ' ' in verb else ''}{{{self.name}}}."
        return f"Show the {verb.lower()} of {{{self.name}}}."

    def value_of(self, target: str) -> str:
        """The value that a press on one of its elements gives; empty for another element."""
        return next((value for value in self.slot.values if self.slot.target_of(value) == target), "")


def slots_of(
    page: FoundPage, trials: Sequence[Trial], typed: Mapping[str, str], popups: Mapping[str, Sequence[PopupOption]]
) -> list[FoundSlot]:
    """Return the slots of a page.

    `typed` has what fields took on other pages (see `typed_texts`), `popups` the options of boxes (see
    `popup_options`).
    """
    screens = {screen.screen_id: screen for screen in page.every_screen}
    chosen = [*_choices(page, trials, screens), *_popups(page, popups), *_radios(page)]
    in_choices = {target for slot in chosen for target in slot.targets}
    found: list[FoundSlot] = []
    for each in (
        *_fields(page, {**typed, **typed_texts(trials, screens)}),
        *_switches(page, trials),
        *_sliders(page, trials, screens),
        *_keypads(page, trials, screens),
        *chosen,
        *_lists(page, in_choices),
    ):
        name = unique(slug(each.name) or each.slot.kind.value, [other.name for other in found])
        found.append(each._replace(name=name))
    return found


def typed_texts(trials: Sequence[Trial], screens: Mapping[str, WalkedScreen]) -> dict[str, str]:
    """Return what each field took, by its name in paths; a field is not filled on every page."""
    typed: dict[str, str] = {}
    for trial in trials:
        if trial.kind in (TrialKind.FILL, TrialKind.NUMBER) and (text := taken_text(trial, screens.get(trial.after))):
            typed.setdefault(trial.target, text)
    return typed


def popup_options(trials: Sequence[Trial], screens: Mapping[str, WalkedScreen]) -> dict[str, list[PopupOption]]:
    """Return, by box of choices, the options that were pressed in the menu that it opens."""
    found: dict[str, list[PopupOption]] = defaultdict(list)
    for trial in trials:
        if trial.kind is not TrialKind.PRESS or not trial.way or trial.after not in screens:
            continue
        opens = trial.way[-1].target
        option = screens[trial.before].by_target.get(trial.target)
        box = screens[trial.after].by_target.get(opens)
        if option is not None and option.role == "menu_item" and box is not None and box.role == BOX and box.value:
            found[opens].append(PopupOption(option.text, trial.target, box.value))
    return dict(found)


def _labelled(
    page: FoundPage, element: UIElement, kind: SlotKind, owned: tuple[str, ...], /, **fields: Any
) -> Iterator[FoundSlot]:
    """Yield a slot with the label of its element; none for a control that nobody could name.

    A field of text without a name is kept, which may be a document, and one to search in.
    """
    label = _label(page, element)
    if fields.get("type") in (ValueType.TEXT, ValueType.SEARCH) or not _is_role(label, element):
        yield FoundSlot(label, GraphSlot(kind=kind, name=label, **fields), owned)


def _label(page: FoundPage, element: UIElement) -> str:
    """The text of an element, else the text beside or above it, else its id, else its group, else its role.

    The box of a row is named after its row; its role is left if nobody could name it.
    """
    own, others = label_of(element), page.around(element)
    row = name_by_row(element, others) if element.role in SWITCHES else None
    if row is not None:
        return f"{BOX_OF}{row}" if row else element.role
    beside = label_beside(element, others) if is_unlabelled(element) else ""
    return beside or (_group_of(element, others) if _is_role(own, element) else "") or own


def _is_role(label: str, element: UIElement) -> bool:
    return label.partition("#")[0] == element.role


def _fields(page: FoundPage, typed: Mapping[str, str]) -> Iterator[FoundSlot]:
    in_forms = {target for form in forms_of(page) for target in form.inputs}
    for target, (element, *_) in page.elements.items():
        if target in typed:
            value = typed[target]
            default = "" if element.value == value else element.value  # The walk typed it.
            kind = type_of(element)
            kind = ValueType.NUMBER if kind is ValueType.TEXT and value in examples()[ValueType.NUMBER] else kind
            values, texts = (
                values_for(page, element, kind),
                Counter(each.element.text for each in page.elements.values()),
            )
            common = tuple(each for each in values if texts[each] > 1) if kind is ValueType.SEARCH else ()
            fields = {"values": values, "common": common, "default": default, "type": kind}
            yield from _labelled(
                page, element, SlotKind.FIELD, (target,), target=target, in_form=target in in_forms, **fields
            )


def _sliders(page: FoundPage, trials: Sequence[Trial], screens: Mapping[str, WalkedScreen]) -> Iterator[FoundSlot]:
    for target, (element, *_) in page.elements.items():
        moved = [trial for trial in trials if trial.target == target and trial.kind in KEYS]
        keys = {value: KEYS[each.kind] for each in moved if (value := taken_text(each, screens.get(each.after)))}
        if keys:
            fields = {"target": target, "values": tuple(keys), "default": element.value, "keys": keys}
            yield from _labelled(page, element, SlotKind.SLIDER, (target,), **fields)


def _keypads(page: FoundPage, trials: Sequence[Trial], screens: Mapping[str, WalkedScreen]) -> Iterator[FoundSlot]:
    """The keypad of a page of which a display has shown the result of a sum."""
    keys, result = keys_on(page), next(iter(results().values()))
    ends = (screens[each.after] for each in trials if each.kind is TrialKind.KEYPAD and each.after in screens)
    display = next((target for end in ends for target, each in end.by_target.items() if each.value == result), None)
    if display is not None:
        known = {total: shown for total, shown in results().items() if keys.keys() >= {*keys_of(total)}}
        fields: dict[str, Any] = {"target": display, "values": tuple(known), "shown": known, "targets": keys}
        yield FoundSlot("sum", GraphSlot(kind=SlotKind.KEYPAD, type=ValueType.SUM, **fields), tuple(keys.values()))


def _choices(page: FoundPage, trials: Sequence[Trial], screens: Mapping[str, WalkedScreen]) -> Iterator[FoundSlot]:
    """The boxes of which a press opened a list that has the box's own value in it."""
    for trial in trials:
        box = page.elements[trial.target].element if trial.target in page.elements else None
        if box is None or box.role != BOX or trial.kind is not TrialKind.PRESS or trial.after not in screens:
            continue
        before, after = screens[trial.before].by_target, screens[trial.after].by_target
        options = {
            each.text: target
            for target, each in after.items()
            if each.role == "list_item" and each.text and target not in before and "disabled" not in each.states
        }
        if len(options) > 1 and box.value in options:
            fields = {"values": tuple(options), "default": box.value, "opens": trial.target, **_pressed(options)}
            yield from _labelled(page, box, SlotKind.CHOICE, (trial.target, *options.values()), **fields)


def _popups(page: FoundPage, popups: Mapping[str, Sequence[PopupOption]]) -> Iterator[FoundSlot]:
    """The boxes of which a press opened a menu; what was opened stays a page, so no element belongs to the slot."""
    for target, (element, *_) in page.elements.items():
        options = {each.text: each for each in _that_took(popups.get(target, ())) if each.text}
        opened = any(each.target in page.elements for each in options.values())
        if element.role == BOX and not opened and len({each.shown for each in options.values()}) > 1:
            yield from _labelled(
                page,
                element,
                SlotKind.CHOICE,
                (),
                values=tuple(options),
                default=next((text for text, each in options.items() if each.shown == element.value), ""),
                opens=target,
                shown={text: each.shown for text, each in options.items() if each.shown != text},
                **_pressed({text: each.target for text, each in options.items()}),
            )


def _that_took(options: Sequence[PopupOption]) -> Iterator[PopupOption]:
    """The options that the box shows when chosen; where it shows the same after another one, a press was missed."""
    times = Counter(shown for _, shown in {(each.text, each.shown) for each in options})
    yield from (each for each in options if times[each.shown] == 1 or slug(each.text) == slug(each.shown))


def _switches(page: FoundPage, trials: Sequence[Trial]) -> Iterator[FoundSlot]:
    # A switch that exists only after some act, such as one in an added row, cannot be asked for by itself.
    standing = {target for screen in page.standing for target in screen.by_target}
    for trial in trials:
        element = page.elements[trial.target].element if trial.target in page.elements else None
        if trial.undone and element is not None and element.role in SWITCHES and trial.target in standing:
            others, is_on = page.around(element), "checked" in element.states
            row = [each for each in others if each.bounds.top == element.bounds.top and each.role in FIELDS]
            is_part = element.text.endswith(":") and not all(each.text for each in row)
            fields = {"target": trial.target, "values": (OFF, ON), "default": ON if is_on else OFF, "in_form": is_part}
            group = _group_of(element, others) if is_on or not starts_with_verb(element.text) else ""
            for found in _labelled(page, element, SlotKind.SWITCH, (trial.target,), **fields):
                is_told = group in ("", found.name) or found.name.startswith(BOX_OF)
                name = found.name if is_told else f"{found.name.rstrip(': ')} under {group}"
                yield found._replace(slot=found.slot.model_copy(update={"name": name}))


def _group_of(element: UIElement, others: Sequence[UIElement]) -> str:
    """The heading of the group that an element is indented in; empty without one."""
    left, top = element.bounds[:2]
    labels = {each.text for each in others if each.role not in _HEADS}
    texts = [each for each in others if each.role in _HEADS and each.text not in labels and not is_sentence(each.text)]
    over = (each for each in texts if each.text and each.bounds.left < left < each.bounds.right)
    above = [each for each in over if left <= each.bounds.left + _MOST_INDENT and each.bounds.bottom <= top]
    last = max(above, key=lambda each: each.bounds.top, default=element)
    return last.text if last.role == "text" and not last.text.endswith(":") else ""


def _radios(page: FoundPage) -> Iterator[FoundSlot]:
    """The groups of radio buttons, named after the text before them; those whose ids have a group are lists."""
    for group in radio_groups(page):
        named = {page.elements[target].element.text: target for target in group}
        is_list = any(set(":/") & set(page.elements[target].element.element_id) for target in group)
        if len(named) < 2 or not all(named) or is_list:
            continue
        marked = (text for text, target in named.items() if is_marked(page.elements[target].element))
        label = _words_before(page, group[0], named)
        fields = {"values": tuple(named), "default": next(marked, ""), **_pressed(named)}
        yield FoundSlot(label or "choice", GraphSlot(kind=SlotKind.CHOICE, name=label, **fields), group)


def _words_before(page: FoundPage, target: str, options: Mapping[str, str]) -> str:
    """The text that stands right before an element and is none of some options."""
    names = list(page.elements)
    for name in reversed(names[: names.index(target)]):
        element = page.elements[name].element
        if element.text not in options:
            return element.text if element.role in ("text", "heading", "group") else ""
    return ""


def _lists(page: FoundPage, in_choices: Collection[str]) -> Iterator[FoundSlot]:
    in_groups = set(in_choices)
    for group in lists_of(page):
        named = {name: target for name, target in group.items.items() if target not in in_choices}
        in_groups.update(group.items.values())
        if len(named) > 1 and not (group.is_run and _is_paging(named)):
            slot = GraphSlot(kind=SlotKind.LIST, values=tuple(named)[:_MOST_ITEMS], **_pressed(named))
            yield FoundSlot(group.verb or "item", slot, tuple(named.values()), group.verb)
    for kind, targets in items_of(page).items():
        elements = {target: page.elements[target].element for target in targets if target not in in_groups}
        named = {element.text: target for target, element in elements.items() if element.text}
        if len(named) < 2 or (not kind.startswith("radio") and _is_paging(named)):
            continue
        fields: dict[str, Any] = {"kind": SlotKind.LIST}
        if kind.startswith("radio"):
            marked = (text for text, target in named.items() if is_marked(elements[target]))
            fields = {"kind": SlotKind.CHOICE, "default": next(marked, "")}
        slot = GraphSlot(values=tuple(named), **fields, **_pressed(named))
        name = "item" if "0" in kind else kind.rpartition("/")[2].rpartition(" ")[2]  # No word of the app has a number.
        yield FoundSlot(name, slot, tuple(named.values()))


def _is_paging(names: Collection[str]) -> bool:
    numbers = sorted(int(name) for name in names if name.isdecimal())
    return len(numbers) == len(names) and numbers == [*range(1, len(numbers) + 1)]


def _pressed(named: Mapping[str, str]) -> dict[str, object]:
    """The pattern of the elements to press, and those that do not follow it."""
    text, target = next(iter(named.items()))
    pattern = target.replace(text, VALUE) if text in target and VALUE not in target else VALUE
    others = {each: to for each, to in named.items() if pattern.replace(VALUE, each) != to}
    return {"target": pattern, "targets": others}
