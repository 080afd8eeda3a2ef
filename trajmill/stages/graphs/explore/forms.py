"""Finds the forms of a page, and fills them as a person would: typed values, another choice, switches."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.query import PathStep
from trajmill.stages.graphs.base import ValueType
from trajmill.stages.graphs.explore.base import BOX, BUTTONS, FIELDS, INPUTS, step
from trajmill.stages.graphs.explore.pages import FoundPage
from trajmill.stages.graphs.recognise import is_marked
from trajmill.stages.graphs.values import examples_for, type_of

_MOST_INPUTS = 12
"""A page with more is a table or a list of settings; of those, a form has the text fields alone."""
_MOST_BUTTONS = 3
_MOST_WORDS = 100
_UNFILLED = frozenset(("password", "disabled", "datetime-local", "month", "week"))
_READ = frozenset({"list_item", "cell", "heading", "text"})
_FEWEST_IN_COLUMN = 4


class Form(NamedTuple):
    inputs: tuple[str, ...]
    """In reading order, by their names in paths; of radio buttons, the one to choose."""
    buttons: tuple[str, ...]
    """The buttons after them, of which one sends the form."""


def is_field(element: UIElement) -> bool:
    states = set(element.states)
    return element.role in FIELDS and "editable" in states and _UNFILLED.isdisjoint(states)


def forms_of(page: FoundPage) -> list[Form]:
    """Return the forms of a page: inputs with at least one field, and the buttons that follow them."""
    found: list[Form] = []
    inputs, buttons, before = list[str](), list[str](), list[str]()
    for target, element in [*_standing(page), ("", None)]:
        is_input = element is not None and element.role in INPUTS
        if (is_input and buttons) or element is None:
            # Buttons above unnamed fields are the tool bar of a document, not of a form.
            named = any(page.elements[each].element.text for each in inputs)
            found += _form(page, inputs, buttons or (before if named else ()))
            inputs, buttons, before = [], [], []
        if element is None:
            break
        if is_input and "disabled" not in element.states:
            if inputs and is_field(element) and _is_search_beside(page.elements[inputs[0]].element, element):
                inputs = inputs[1:]
            inputs.append(target)
        elif element.role in BUTTONS:
            (buttons if inputs else before).append(target)
    return found


def _is_search_beside(first: UIElement, second: UIElement) -> bool:
    """Whether the first of two fields is for a search and stands elsewhere, such as in a menu at the side."""
    one, other = first.bounds, second.bounds
    in_column = one.left < other.right and other.left < one.right
    in_row = one.top < other.bottom and other.top < one.bottom
    return is_field(first) and type_of(first) is ValueType.SEARCH and not in_column and not in_row


def _standing(page: FoundPage) -> Iterator[tuple[str, UIElement]]:
    """Yield the elements of a page as it is first shown, and below the visible part."""
    shown = {screen.screen_id for screen in page.standing}
    yield from ((target, each.element) for target, each in page.elements.items() if each.screen_id in shown)


def _form(page: FoundPage, inputs: Sequence[str], buttons: Sequence[str]) -> list[Form]:
    fields = [each for each in inputs if is_field(page.elements[each].element)]
    if not fields or not buttons:
        return []
    others = {target for _, *others in radio_groups(page) for target in others}
    kept = [each for each in inputs if each not in others]
    return [Form(tuple(kept if len(kept) <= _MOST_INPUTS else fields), tuple(buttons[:_MOST_BUTTONS]))]


def radio_groups(page: FoundPage) -> list[tuple[str, ...]]:
    """Return the radio buttons that exclude each other: those without another input between them, one marked each."""
    groups: list[list[str]] = [[]]
    marked = False
    for target, element in _standing(page):
        if element.role == "radio":
            if marked and is_marked(element):
                groups.append([])
            marked = is_marked(element) or (marked and bool(groups[-1]))
            groups[-1] += [target] * ("disabled" not in element.states)
        elif element.role in INPUTS | BUTTONS:
            groups.append([])
            marked = False
    return [tuple(group) for group in groups if len(group) > 1]


def filling_of(page: FoundPage, inputs: Sequence[str], numbers: Collection[str]) -> tuple[PathStep, ...]:
    """Return the operations that fill inputs: each field with another example, each choice with another option.

    `numbers` are fields that took no text.
    """
    used = {step.text for each in inputs for step in page.elements[each].way if step.operation == "replace"}
    steps: list[PathStep] = []
    groups = {group[0]: group for group in radio_groups(page)}
    for target in inputs:
        element = page.elements[target].element
        pressed = [target]
        if element.role in FIELDS:
            kind = ValueType.NUMBER if target in numbers else type_of(element)
            known = values_for(page, element, kind)
            value = next((each for each in known if each not in {*used, element.value}), known[-1])
            used.add(value)
            steps += [*_press(page, target), step("replace", target, value)]
            continue
        if element.role == BOX:
            other = [each for each in page.options.get(target, ()) if each.partition(":")[2] != element.value]
            pressed = [target, other[0]] if other else []
        elif target in groups:
            pressed = [each for each in groups[target] if "checked" not in page.elements[each].element.states][-1:]
        elif "checked" in element.states:
            pressed = []
        steps += _press(page, *pressed)
    return tuple(steps)


def _press(page: FoundPage, *targets: str) -> Iterator[PathStep]:
    """Press elements; what the first one opens needs no scrolling."""
    if page.scrolled and targets:
        yield step("scroll", targets[0])
    yield from (step("tap", each) for each in targets)


def values_for(page: FoundPage, field: UIElement, kind: ValueType) -> tuple[str, ...]:
    """Return what a field can be asked to hold: words on the page for a search, else examples of its type."""
    return (words_to_find(page) if kind is ValueType.SEARCH else ()) or examples_for(field, kind)


def words_to_find(page: FoundPage) -> tuple[str, ...]:
    """Return names of items on a page, which a search there finds: of rows with several parts, and in columns."""
    items = [item for group in page.groups if not group.is_run for item in group.items.items()]
    names = (name for name, target in items if page.elements[target].element.role not in BUTTONS)
    # Including rows that appear when the list is sorted or its next page is shown.
    texts = [e for e, *_ in page.elements.values() if e.role in _READ and "clickable" not in e.states]
    columns: dict[tuple[str, int], list[UIElement]] = defaultdict(list)
    for each in texts:
        columns[each.role, each.bounds.left].append(each)
    own = (each.text for each in texts if _is_even(columns[each.role, each.bounds.left]))
    heads = {each.text.partition(":")[0] for _, each in _standing(page) if "clickable" in each.states}
    said = (name for name in dict.fromkeys((*names, *own)) if not name.endswith(":"))
    words = (name for name in said if 3 < len(name) <= 40 and name[0].isalpha())
    return tuple(islice((word for word in words if word not in heads), _MOST_WORDS))


def _is_even(column: Sequence[UIElement]) -> bool:
    """Whether texts stand one below the other as in a table, rather than as in a document."""
    tops = sorted({each.bounds.top for each in column})
    steps = Counter(below - above for above, below in pairwise(tops))
    return max(steps.values(), default=0) >= _FEWEST_IN_COLUMN - 1
