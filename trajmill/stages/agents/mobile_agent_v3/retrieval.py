"""Retrieves knowledge about a task: queries, search, summary (paper Mobile-Agent-v3, 7.2.1)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import chain, zip_longest
from typing import NamedTuple

from trajmill.stages.agents.base import EpisodeView
from trajmill.stages.agents.replies import NONE, numbered, one_line, read_queries, read_summary
from trajmill.stages.agents.roles import EmbeddedQuestion, EmbeddedRole, Role, RoleReply

Retriever = Callable[[str], Awaitable[tuple[str, ...]]]
"""Gives the passages for a query, best first."""


class Researcher(NamedTuple):
    queries: Role
    summary: Role


class Retrieval(NamedTuple):
    """Without a researcher the instruction is the query, and the passages are the knowledge."""

    search: Retriever
    researcher: Researcher | None = None

    async def knowledge(self, episode: EpisodeView) -> RoleReply[str]:
        """Return K = Process(SearchEngine(GenerateQueries(I))), empty if nothing is found.

        After malformed queries the instruction is searched for, after a malformed summary the passages are the
        knowledge. Raises ModelFailure if a model did not answer.
        """
        instruction = one_line(episode.instruction)
        if self.researcher is None:
            return RoleReply("\n\n".join(map(one_line, await self.search(instruction))), ())
        written = await self.researcher.queries.ask(episode, read_queries, instruction=instruction)
        queries = written.said or (instruction,)
        found = await asyncio.gather(*map(self.search, queries))
        # The best passage of each query comes first.
        ranked = [each for each in chain.from_iterable(zip_longest(*found)) if each is not None]
        passages = list(dict.fromkeys(map(one_line, ranked)))
        if not passages:
            return RoleReply("", written.calls)
        listed = "\n".join(f"{number}. {text}" for number, text in enumerate(passages, 1))
        summary = self.researcher.summary
        summed = await summary.ask(episode, read_summary, instruction=instruction, passages=listed)
        said = "\n\n".join(passages) if summed.said is None else summed.said
        return RoleReply("" if said == NONE else said, (*written.calls, *summed.calls))


def _researched(asked: EmbeddedQuestion) -> str:
    """Search for the request, and keep the passages."""
    if passages := asked.section("passages"):
        return f"### Summary ###\n{passages}"
    return f"### Queries ###\n{numbered([asked.section('user request')])}"


RESEARCHER = EmbeddedRole("embedded-researcher-1", _researched)
