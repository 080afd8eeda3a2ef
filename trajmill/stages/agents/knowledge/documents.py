"""Reads the passages of a folder of documents, and finds those that fit an instruction best by BM25."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import bm25s

from trajmill.schemas.errors import BadInputError

SUFFIXES = (".md", ".txt")
"""Endings of the files that are read."""
LONGEST_PASSAGE = 1200
"""Characters after which the paragraphs of a document begin another passage."""


class KeywordIndex:
    """Finds passages that share words with an instruction."""

    def __init__(self, passages: Sequence[str]) -> None:
        """Index passages, at least one."""
        self._passages = passages
        self._index = bm25s.BM25()
        self._index.index(_words(list(passages)), show_progress=False)

    async def retrieve(self, instruction: str, most: int) -> tuple[str, ...]:
        """The passages that share words with an instruction, best first.

        Args:
            instruction: the task, which is the search query.
            most: number of passages.
        """
        words = _words([instruction])
        if not words.vocab:
            return ()
        found = self._index.retrieve(words, k=min(most, len(self._passages)), show_progress=False)
        ranked = zip(found.documents[0].tolist(), found.scores[0].tolist(), strict=True)
        return tuple(self._passages[at] for at, score in ranked if score > 0)


def read_passages(folder: Path) -> list[str]:
    """The passages of all `.md` and `.txt` files in a folder and the folders in it, in the order of their names.

    Raises:
        BadInputError: the folder has no such file with text, or one is not UTF-8.
    """
    files = sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file())
    found = [passage for path in files for passage in passages(_text(path))]
    if not found:
        raise BadInputError(f"{folder}: no document with text; put {' or '.join(SUFFIXES)} files there")
    return found


def passages(text: str) -> list[str]:
    """The paragraphs of a document, joined to passages of at most `LONGEST_PASSAGE` characters; a longer one is cut."""
    found: list[str] = []
    for paragraph in (part.strip()[:LONGEST_PASSAGE] for part in text.split("\n\n")):
        if found and len(found[-1]) + len(paragraph) + 2 <= LONGEST_PASSAGE:
            found[-1] = f"{found[-1]}\n\n{paragraph}"
        else:
            found.append(paragraph)
    return [passage for passage in found if passage]


def _words(texts: list[str]) -> bm25s.tokenization.Tokenized:
    return bm25s.tokenize(texts, stopwords="en", show_progress=False)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: not UTF-8 (byte {error.start}); a document is a text file") from None
