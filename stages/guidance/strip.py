"""Finds guidance in texts, to keep it out of training data: the policy must learn to act without it (paper 6.4)."""

from __future__ import annotations


def quotes_guidance(text: str, guidance: str) -> bool:
    """Whether a text contains a line of the guidance; case and spacing are ignored.

    A line is searched with its number. So a thought that only names the same button does not count, and one that
    repeats a hint does.
    """
    plain_text = _normalised(text)
    return any(line in plain_text for line in map(_normalised, guidance.splitlines()) if line)


def _normalised(text: str) -> str:
    return " ".join(text.casefold().split())
