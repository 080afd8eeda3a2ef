"""The authors of what a training row teaches, for the cards of releases and exports."""

from __future__ import annotations

from typing import Final

from trajmill.stages.derive.collected import TEMPLATE, writes_templates

TEMPLATES: Final = "filled into templates"
MODELS: Final = "a model's"
IMPORTED: Final = "a data set's"
NO_WORDS: Final = "none, the call alone"
_WORDLESS: Final = ("action_semantics", "action")
_IMPORT: Final = "import."


def words_of(kind: str, variant: str, author: str) -> str:
    """Return who wrote what the rows of a variant teach, one of the four texts of this module.

    Args:
        kind: a derived kind, or `sft`.
        variant: the sort within the kind; empty without one.
        author: the version of a policy, of a model or of an import, or `template`.
    """
    if (kind, variant) == _WORDLESS:
        return NO_WORDS
    if author == TEMPLATE or writes_templates(author):
        return TEMPLATES
    return IMPORTED if author.startswith(_IMPORT) else MODELS
