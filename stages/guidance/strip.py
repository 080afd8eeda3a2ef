"""Guidance never becomes training data: what a policy is to learn is to do without (paper 6.4)."""

from __future__ import annotations


def quotes_guidance(text: str, guidance: str) -> bool:
    """Whether a line of the guidance that an attempt was given stands in one of its texts, in any case and spacing.

    Lines are looked for with their number, so that a thought which happens to name the same button quotes nothing, and
    one that repeats its hints does.
    """
    said = _plain(text)
    return any(line in said for line in map(_plain, guidance.splitlines()) if line)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
