"""Capture the screen of a device, and learn where its lists end."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree

from trajmill.schemas.actions import Swipe
from trajmill.schemas.errors import EnvironmentFailure
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import HOLDABLE, UIElement
from trajmill.stages.environments.android.commands import Apps, ShellLine
from trajmill.stages.environments.android.spec import AndroidSpec

if TYPE_CHECKING:
    from trajmill.stages.environments.android.adb import AdbDevice

_DUMP = "/data/local/tmp/trajmill.xml"
_PARTS = "\ntrajmill-window\n"
# One call instead of four: on a real device each costs tens of milliseconds.
_DESCRIBE = (
    f"timeout %d uiautomator dump {_DUMP} >/dev/null 2>&1 && cat {_DUMP}; rm -f {_DUMP}; echo; echo trajmill-window; "
    "dumpsys window | grep -E 'mCurrentFocus|mFocusedApp|Window #|fl='; "
    "dumpsys input_method | grep -E 'mInputShown|inputType='; dumpsys window InputMethod | grep 'touchable region'"
)
# A device with two displays says so on standard error, which would come before the image.
_CAPTURE = ShellLine("screencap -p 2>/dev/null")
_FOCUS = re.compile(r"mCurrentFocus=Window\{\S+ u\d+ ([\w.]+/[\w.$]+)\}")
_FOCUSED_APP = re.compile(r"mFocusedApp=.*?\bu\d+ ([\w.]+/[\w.$]+)")
_REGION = re.compile(r"touchable region=SkRegion\((.*)\)")
_INPUT_TYPE = re.compile(r"inputType=0x([0-9a-f]+)")
_TYPE_CLASS, _MULTI_LINE = 0xF, 0x20000
_FOCUSED_WINDOW = re.compile(r"mCurrentFocus=(Window\{\w+ )")
_WINDOW_FLAGS = re.compile(r"(?<!p)fl=(.*)")
_SECURE = 0x2000
_RECTANGLE = re.compile(r"\((-?\d+),(-?\d+),(-?\d+),(-?\d+)\)")
_PNG_START = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
_PNG_END = b"IEND\xaeB`\x82"
Elements = tuple[UIElement, ...]


class DeviceScreen(NamedTuple):
    png: bytes
    size: Size
    elements: tuple[UIElement, ...] | None
    """None if uiautomator gave no tree in time, e.g. for a screen that never stops changing."""
    app: str
    component: str
    """`package/activity` in front; empty if unknown."""
    multi_line: bool | None = None
    """Whether the field in use takes several lines; None if unknown."""
    secure: bool = False
    """Whether the window in front has FLAG_SECURE: screenshots show it black."""

    def is_like(self, other: DeviceScreen) -> bool:
        """Whether both show the same; pixels count where there is no tree, since a clock goes on."""
        mine, others = (each.elements or each.png for each in (self, other))
        return (mine, self.component, self.size) == (others, other.component, other.size)


async def capture_screen(device: AdbDevice, apps: Apps, settings: AndroidSpec) -> DeviceScreen:
    """Capture until the screenshots before and after the tree are equal, or `settle_seconds` have passed."""
    deadline = monotonic() + settings.settle_seconds
    # uiautomator waits for a screen that never rests, and may hang; a call must not fail for that.
    describe = ShellLine(_DESCRIBE % max(1, settings.call_seconds // 2))
    before = await _screenshot(device)
    while True:
        described = (await device.run_line(describe)).text
        after = await _screenshot(device)
        screen = _read(after, described, apps)
        if (before == after and screen.elements is not None) or monotonic() > deadline:
            return screen
        before = after


async def _screenshot(device: AdbDevice) -> bytes:
    png = (await device.run_line(_CAPTURE)).content
    if not png:
        raise EnvironmentFailure(f"{device.serial}: the screenshot is empty")
    if not png.startswith(_PNG_START) or not png.endswith(_PNG_END):
        raise EnvironmentFailure(f"{device.serial}: the screenshot is no PNG: {png[:60]!r}")
    return png


def _read(png: bytes, described: str, apps: Apps) -> DeviceScreen:
    xml, _, window_dump = described.replace("\r\n", "\n").rpartition(_PARTS)
    size = Size(*struct.unpack_from(">II", png, len(_PNG_START)))
    focus = _FOCUS.search(window_dump) or _FOCUSED_APP.search(window_dump)
    component = focus[1] if focus else ""
    app = apps.name_of(component.partition("/")[0])
    context = ScreenContext(size, app or "Home screen", apps.launcher, _keyboard(window_dump))
    elements = read_tree(xml.strip(), context)
    return DeviceScreen(png, size, elements, app, component, _multi_line(window_dump), _is_secure(window_dump))


def _is_secure(window_dump: str) -> bool:
    focused = _FOCUSED_WINDOW.search(window_dump)
    flags = focused and _WINDOW_FLAGS.search(window_dump, window_dump.find(f" {focused[1]}"))
    if not flags:
        return False
    names = flags[1].partition("pfl=")[0].split()
    # Up to Android 8, the flags are a number.
    number = names[0].removeprefix("#") if names and names[0].startswith("#") else "0"
    return "SECURE" in names or bool(int(number, 16) & _SECURE)


def _multi_line(window_dump: str) -> bool | None:
    types = [int(number, 16) for number in _INPUT_TYPE.findall(window_dump)]
    return bool(types[-1] & _MULTI_LINE) if types and types[-1] & _TYPE_CLASS else None


def _keyboard(window_dump: str) -> Box | None:
    region = _REGION.search(window_dump)
    if "mInputShown=true" not in window_dump or region is None:
        return None
    boxes = [Box(*map(int, rectangle)) for rectangle in _RECTANGLE.findall(region[1])]
    if not boxes:
        return None
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return Box(min(lefts), min(tops), max(rights), max(bottoms))


class ListEnds:
    """The ends of lists that the swipes of one episode have revealed."""

    def __init__(self) -> None:
        self._ends: set[tuple[Elements, Box, str]] = set()

    def learn(self, swipe: Swipe, before: Elements | None, after: Elements | None) -> None:
        down = swipe.y - swipe.y2
        if before is None or before != after or abs(down) <= abs(swipe.x - swipe.x2):
            return
        state = "scrollable_down" if down > 0 else "scrollable_up"
        self._ends.update(
            (before, each.bounds, state)
            for each in before
            if each.role == "list" and each.bounds.contains(swipe.x, swipe.y)
        )

    def correct(self, elements: Elements | None) -> Elements | None:
        if elements is None or not self._ends:
            return elements
        corrected = []
        for each in elements:
            states = tuple(state for state in each.states if (elements, each.bounds, state) not in self._ends)
            corrected.append(each._replace(states=states) if each.role == "list" else each)
        return tuple(corrected)


_ROLES_BY_ROLE = {
    "button": ("Button", "ImageButton", "MaterialButton", "FloatingActionButton", "ActionMenuItemView"),
    "checkbox": ("CheckBox", "CheckedTextView"),
    "switch": ("Switch", "SwitchCompat", "ToggleButton"),
    "radio": ("RadioButton",),
    "text_field": ("EditText", "AutoCompleteTextView", "MultiAutoCompleteTextView"),
    "search_field": ("SearchAutoComplete", "SearchView"),
    "menu": ("Spinner",),
    "slider": ("SeekBar", "RatingBar"),
    "progress": ("ProgressBar",),
    "image": ("ImageView", "Image"),
    "text": ("TextView",),
    "tab": ("Tab", "TabView"),
}
_ROLES = {name: role for role, names in _ROLES_BY_ROLE.items() for name in names}
_LISTS = ("ListView", "RecyclerView", "GridView", "ExpandableListView")
GROUPS = ("RadioGroup", "NumberPicker")
"""Widgets that only group buttons; each button has the group's label as its value."""
_FIELDS = ("text_field", "search_field")
_BOUNDS = re.compile(r"\[(-?\d+),(-?\d+)\]\[(-?\d+),(-?\d+)\]")
_TITLES = ("action_bar_title", "toolbar_title", "title")
_FLAGS = ("checked", "selected", "focused", "password")


class _Surroundings(NamedTuple):
    listed: bool = False
    tabs: bool = False
    group: str = ""
    stepper: str = ""
    launcher: bool = False

    def inside(self, node: ElementTree.Element) -> _Surroundings:
        widget, label = _widget(node), node.get("content-desc", "")
        return self._replace(
            listed=self.listed or _flag(node, "scrollable") or widget in _LISTS,
            tabs=self.tabs or widget in ("TabWidget", "TabLayout"),
            group=label if widget == "RadioGroup" else self.group,
            stepper=(label or "number") if widget == "NumberPicker" else self.stepper,
        )


def _role(node: ElementTree.Element, around: _Surroundings) -> str:
    role = _ROLES.get(_widget(node), "")
    if role == "button" and around.stepper:
        return "stepper_button"
    if role in _FIELDS:
        return "search_field" if "search" in node.get("resource-id", "").rpartition("/")[2].casefold() else role
    if not _flag(node, "clickable") or role not in ("", "text", "image"):
        return role or "text"
    if around.launcher:
        return "icon"
    if around.tabs:
        return "tab"
    return "list_item" if around.listed and not role else "button"


class ScreenContext(NamedTuple):
    size: Size
    app: str
    launcher: str
    keyboard: Box | None
    """The area of the on-screen keyboard; None while it is hidden."""


def read_tree(xml: str, context: ScreenContext) -> tuple[UIElement, ...] | None:
    """Return the elements of a dump without those that the keyboard covers; None if `xml` is not a dump.

    The first element is the title. uiautomator does not report the possible directions of scrolling, so each list has
    both scroll states.
    """
    try:
        root = ElementTree.fromstring(xml)
    except ElementTree.ParseError:
        return None
    if root.tag != "hierarchy":
        return None
    found = list(_below(root, _Surroundings(), context))
    if context.keyboard is not None:
        covered = context.keyboard
        found = [each for each in found if not covered.contains(*each.element.bounds.center)]
    title = next((each for each in found if each.may_be_title), None)
    rest = [each.element for each in found if each is not title]
    head = title.element if title else UIElement("text", context.app, Box(0, 0, context.size.width, 1))
    elements = [head._replace(role="heading", states=("title",)), *rest]
    if context.keyboard is not None:
        elements.append(UIElement("keyboard", "", context.keyboard, (), "", "keyboard"))
    return tuple(elements)


class _Found(NamedTuple):
    element: UIElement
    may_be_title: bool


def _below(node: ElementTree.Element, around: _Surroundings, context: ScreenContext) -> Iterator[_Found]:
    for child in node:
        yield from _node(child, around, context)


def _node(node: ElementTree.Element, around: _Surroundings, context: ScreenContext) -> Iterator[_Found]:
    if node.get("package"):
        around = around._replace(launcher=node.get("package") == context.launcher)
    inside = around.inside(node)
    box, scrolls = _box(node, context.size), _flag(node, "scrollable")
    if box.area and _flag(node, "clickable") and not scrolls and len(node) and not node.get("text"):
        yield _Found(_row(node, box, around), False)
        for child in node.iter("node"):
            if child is not node and _reacts(child):
                yield from _node(child, inside, context)
        return
    # Containers and groups are no elements; the members of a group have its label as their value.
    is_field = _role(node, _Surroundings()) in _FIELDS
    if box.area and scrolls:
        states = ("scrollable_down", "scrollable_up")
        region = UIElement("list", node.get("content-desc", ""), box, states, "", node.get("resource-id", ""))
        yield _Found(region, False)
    elif box.area and _widget(node) not in GROUPS and (_text(node) or _reacts(node) or is_field):
        element = _element(node, box, around)
        named = node.get("resource-id", "").rpartition("/")[2] in _TITLES
        yield _Found(element, named and element.role == "text" and not around.listed)
    yield from _below(node, inside, context)


def _element(node: ElementTree.Element, box: Box, around: _Surroundings) -> UIElement:
    role = _role(node, around)
    text, value = _text(node), ""
    if role in _FIELDS:
        text, value = node.get("hint", "") or node.get("content-desc", ""), node.get("text", "")
    elif role == "radio":
        value = around.group
    elif role == "stepper_button":
        value = around.stepper
    return UIElement(role, text, box, _states(node, role, [node]), value, node.get("resource-id", ""))


def _row(node: ElementTree.Element, box: Box, around: _Surroundings) -> UIElement:
    parts = [child for child in _own_parts(node) if child is not node]
    texts = [text for text in map(_text, parts) if text] or [_text(node)]
    marks = [child for child in parts if _role(child, _Surroundings()) in ("checkbox", "switch", "radio")]
    role = _role(marks[0], around) if len(marks) == 1 else _role(node, around)
    states = _states(node, role, [node, *marks] if len(marks) == 1 else [node])
    return UIElement(role, texts[0], box, states, ", ".join(texts[1:]), node.get("resource-id", ""))


def _own_parts(node: ElementTree.Element) -> Iterator[ElementTree.Element]:
    """The nodes of a row, without the nodes that react to presses by themselves and all inside them."""
    yield node
    for child in node:
        if not _reacts(child):
            yield from _own_parts(child)


def _reacts(node: ElementTree.Element) -> bool:
    return any(_flag(node, name) for name in ("clickable", "long-clickable", "scrollable"))


def _states(node: ElementTree.Element, role: str, sources: Iterable[ElementTree.Element]) -> tuple[str, ...]:
    if not _flag(node, "enabled", "true"):
        return ("disabled",)
    sources = list(sources)
    states = [state for state in ("clickable", HOLDABLE) if _flag(node, state.replace("_", "-"))]
    states += [name for name in _FLAGS if any(_flag(source, name) for source in sources)]
    return (*states, "editable") if role in _FIELDS else tuple(states)


def _text(node: ElementTree.Element) -> str:
    return " ".join((node.get("text") or node.get("content-desc") or "").split())


def _widget(node: ElementTree.Element) -> str:
    """The last part of a node's class, e.g. `Button` of `android.widget.Button`."""
    return node.get("class", "").replace("$", ".").rpartition(".")[2]


def _flag(node: ElementTree.Element, name: str, default: str = "false") -> bool:
    return node.get(name, default) == "true"


def _box(node: ElementTree.Element, size: Size) -> Box:
    """The visible part of a node; uiautomator also gives bounds beyond the screen's edges."""
    match = _BOUNDS.fullmatch(node.get("bounds", ""))
    if match is None:
        return Box(0, 0, 0, 0)
    return Box(*map(int, match.groups())).within(Box(0, 0, *size))
