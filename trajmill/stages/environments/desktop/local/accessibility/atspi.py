"""AT-SPI's roles and states by number, and the calls that read an accessibility tree."""

from __future__ import annotations

from typing import Any, NamedTuple

from trajmill.stages.environments.desktop.local.accessibility.bus import BusCall

ROLES = tuple(
    """invalid,accelerator-label,alert,animation,arrow,calendar,canvas,check-box,check-menu-item,color-chooser,
    column-header,combo-box,date-editor,desktop-icon,desktop-frame,dial,dialog,directory-pane,drawing-area,
    file-chooser,filler,focus-traversable,font-chooser,frame,glass-pane,html-container,icon,image,internal-frame,
    label,layered-pane,list,list-item,menu,menu-bar,menu-item,option-pane,page-tab,page-tab-list,panel,password-text,
    popup-menu,progress-bar,push-button,radio-button,radio-menu-item,root-pane,row-header,scroll-bar,scroll-pane,
    separator,slider,spin-button,split-pane,status-bar,table,table-cell,table-column-header,table-row-header,
    tear-off-menu-item,terminal,text,toggle-button,tool-bar,tool-tip,tree,tree-table,unknown,viewport,window,extended,
    header,footer,paragraph,ruler,application,autocomplete,editbar,embedded,entry,chart,caption,document-frame,heading,
    page,section,redundant-object,form,link,input-method-window,table-row,tree-item,document-spreadsheet,
    document-presentation,document-text,document-web,document-email,comment,list-box,grouping,image-map,notification,
    info-bar,level-bar,title-bar,block-quote,audio,video,definition,article,landmark,log,marquee,math,rating,timer,
    static,math-fraction,math-root,subscript,superscript,description-list,description-term,description-value,footnote,
    content-deletion,content-insertion,mark,suggestion,push-button-menu,switch""".replace("\n", "")
    .replace(" ", "")
    .split(",")
)
STATES = tuple(
    """invalid,active,armed,busy,checked,collapsed,defunct,editable,enabled,expandable,expanded,focusable,focused,
    has_tooltip,horizontal,iconified,modal,multi_line,multiselectable,opaque,pressed,resizable,selectable,selected,
    sensitive,showing,single_line,stale,transient,vertical,visible,manages_descendants,indeterminate,required,
    truncated,animated,invalid_entry,supports_autocompletion,selectable_text,is_default,visited,checkable,has_popup,
    read_only""".replace("\n", "")
    .replace(" ", "")
    .split(",")
)
_REGISTRY = "org.a11y.atspi.Registry"
_PREFIX = "org.a11y.atspi."
_PROPERTIES = "org.freedesktop.DBus.Properties"
_SCREEN_COORDINATES = 0


class Reference(NamedTuple):
    """An accessible object: the bus name of its program and its path there."""

    owner: str
    path: str

    def call(self, interface: str, method: str, signature: str = "", *arguments: Any) -> BusCall:
        """The call of a method of one of its accessibility interfaces."""
        return BusCall(self.owner, self.path, f"{_PREFIX}{interface}", method, signature, arguments)


class CachedObject(NamedTuple):
    """An object of a program's tree, as the program's cache describes it."""

    reference: Reference
    parent: Reference
    place: int
    """Its index among its parent's children; -1 if the program does not give it."""
    children: int
    """The number of its children; -1 if the program does not give it."""
    interfaces: frozenset[str]
    name: str
    role: str
    states: frozenset[str]

    @property
    def shown(self) -> bool:
        """Whether the program reports it as visible."""
        return "showing" in self.states and "visible" in self.states


def programs_call() -> BusCall:
    """The call for the root objects of all programs."""
    return BusCall(_REGISTRY, f"/{_PREFIX.replace('.', '/')}accessible/root", f"{_PREFIX}Accessible", "GetChildren")


def tree_call(owner: str) -> BusCall:
    """The call for all cached objects of a program."""
    return BusCall(owner, f"/{_PREFIX.replace('.', '/')}cache", f"{_PREFIX}Cache", "GetItems")


def extents_call(reference: Reference) -> BusCall:
    """The call for the bounds of an object on the screen: x, y, width, height."""
    return reference.call("Component", "GetExtents", "u", _SCREEN_COORDINATES)


def property_call(reference: Reference, interface: str, name: str) -> BusCall:
    """The call for a property of an accessibility interface."""
    arguments = (f"{_PREFIX}{interface}", name)
    return BusCall(reference.owner, reference.path, _PROPERTIES, "Get", "ss", arguments)


def read_item(row: tuple[Any, ...]) -> CachedObject:
    """The object of one row of the answer to `tree_call`."""
    reference, _, parent, place, children, interfaces, name, role, _, states = row
    return CachedObject(
        Reference(*reference),
        Reference(*parent),
        place,
        children,
        frozenset(interface.removeprefix(_PREFIX) for interface in interfaces),
        name.strip(),
        role_name(role),
        state_names(states),
    )


def role_name(number: int) -> str:
    """The name of a role; `unknown` if the number is not in the list."""
    return ROLES[number] if number < len(ROLES) else "unknown"


def state_names(words: list[int]) -> frozenset[str]:
    """The names of the states whose bits are set, given as 32-bit words."""
    bits = sum(word << (32 * place) for place, word in enumerate(words))
    return frozenset(name for place, name in enumerate(STATES) if bits >> place & 1)
