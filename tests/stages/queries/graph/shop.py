"""The graph of a little list app, written by hand, for tests that need no environment."""

from trajmill.schemas.tables.query import Platform
from trajmill.stages.graphs.base import AppGraph

_THINGS = {
    "title": "the things",
    "description": "All things of the list.",
    "recognise": {"shows": [{"role": "heading", "text": "Things"}]},
    "elements": {
        "options": {"target": "button:Options", "name": "Options"},
        "add": {"target": "add", "name": "Add"},
        "clear": {"target": "button:Clear", "marks": ["destructive"]},
    },
    "slots": {
        "new": {"kind": "field", "target": "new", "name": "the new thing", "values": ["milk", "tea", "jam"]},
        "thing": {"kind": "list", "target": "list_item:{value}", "values": ["bread", "salt"]},
    },
    "transitions": [
        {"by": "add", "slots": ["new"], "to": "things", "does": "Adds {new} to the list."}
        | {"shows": [{"role": "list_item", "text": "{new}"}]},
        {"by": "options", "to": "options"},
        {"by": "clear", "to": "things", "lacks": [{"role": "list_item", "text": "bread"}]},
        {"by": "thing", "to": "thing", "shows": [{"role": "heading", "text": "{thing}"}]},
    ],
}
_ORDERS = ["By name", "By age", "As added"]
_OPTIONS = {
    "title": "the options",
    "recognise": {"shows": [{"role": "heading", "text": "Options"}]},
    "elements": {"back": {"target": "button:Back"}},
    "slots": {
        "dark": {"kind": "switch", "target": "checkbox:Dark", "name": "dark colours"},
        "order": {"kind": "choice", "target": "radio:{value}", "name": "the order", "values": _ORDERS}
        | {"default": "As added"},
    },
    "transitions": [{"by": "back", "to": "things"}],
}
_THING = {"title": "one thing", "recognise": {"shows": [{"role": "button", "text": "Rename"}]}}
LIST = AppGraph.model_validate(
    {"app": "list", "title": "the list", "platform": Platform.WEB, "start_state": {"url": "http://127.0.0.1:1/"}}
    | {"start": "things", "pages": {"things": _THINGS, "options": _OPTIONS, "thing": _THING}}
)
