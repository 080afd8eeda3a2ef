"""The policy network: late interaction of each candidate with the instruction, then attention among candidates.

Before its first update, the network is exactly the exploration policy: the terms that it adds to the lexical prior
start at zero. The prior's weights are ordinary parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from trajmill.stages.models.embedded.candidates import CHOICES, FLAGS, KINDS, is_open
from trajmill.stages.models.embedded.situation import WORD_FLAGS, Bags, Batch, CandidateGrid, grid_of
from trajmill.stages.models.embedded.words import PADDING, PIECE_BUCKETS, WORD_BUCKETS

_MATCH_NAMES = """text_said text_said_squared text_fresh text_fresh_squared text_whole words_said field_said field_fresh
text_in_last hint hint_squared hint_covered hints guided rival leads"""
MATCHES = tuple(_MATCH_NAMES.split())
"""Features of a candidate: the shares of its words that are in the instruction (fresh: and in no earlier step), ...

`rival` is the best fresh match among the other candidates that are neither chosen nor done: the screen still has
something to do. `leads` marks the best match itself.
"""


class Matches(NamedTuple):
    """The words that `c` candidates share with instruction, guidance and history."""

    words: Tensor
    """(c, m) 1 if the candidate's text has the word of the instruction."""
    scalars: Tensor
    """(c, MATCHES)"""


def match_words(
    batch: Batch, texts: Tensor, fields: Tensor, grid: CandidateGrid, open_: Tensor, weights: Tensor
) -> Matches:
    """Compare the words of all candidates: `texts` (c, j), and `fields` (c, k), the labels beside them.

    `open_` (c,) is 1 for a candidate that is neither chosen nor done, else 0; `weights` (words,) are 0 for no word.
    """
    owner, instruction = grid.owner, batch.instruction
    fresh = instruction * (batch.instruction_flags[..., 1] == 0)
    heard = _word_sets(len(weights), instruction, fresh, batch.last, batch.hint, batch.hints)
    first = owner[:, None] * len(weights)
    text_weights, field_weights = weights[texts.long()], weights[fields.long()]
    said, said_fresh, in_last, hint, in_hints = _share(heard[:, first + texts], text_weights)
    fields_said, fields_fresh = _share(heard[:2, first + fields], field_weights)
    hint_weights = weights[batch.hint.long()][owner]
    covered = (_has(texts, batch.hint[owner]) * hint_weights).sum(-1) / hint_weights.sum(-1).clamp(min=1e-6)
    words = _has(texts, instruction[owner]).to(weights.dtype)
    rival, leads = _rivals(said_fresh * open_, grid)
    scalars = [
        said,
        said.square(),
        said_fresh,
        said_fresh.square(),
        (said > 0.99).to(weights.dtype),
        (words * weights[batch.instruction.long()][owner]).sum(-1) / 3,
        fields_said,
        fields_fresh,
        in_last,
        hint,
        hint.square(),
        covered,
        in_hints,
        (batch.hint > 0).any(-1).to(weights.dtype)[owner],
        rival,
        leads,
    ]
    return Matches(words, torch.stack(scalars, -1))


def _rivals(scores: Tensor, grid: CandidateGrid) -> tuple[Tensor, Tensor]:
    """(c,) the best score of the other candidates of the row, and (c,) 1 for the candidates with the best score."""
    best, second = nn.functional.pad(grid.pad(scores), (0, 1)).topk(2).values.unbind(-1)
    best, second = best[grid.owner], second[grid.owner]
    leads = (scores == best) & (scores > 0)
    return torch.where(leads, second, best), leads.to(scores.dtype)


def _word_sets(words: int, *texts: Tensor) -> Tensor:
    """(texts, b * words) which words each row's texts contain: lookups are cheaper than comparing all pairs."""
    sets = torch.zeros(len(texts), len(texts[0]), words, dtype=torch.bool)
    for has, text in zip(sets, texts, strict=True):
        has.scatter_(1, text.long(), value=True)
    sets[..., PADDING] = False
    return sets.flatten(1)


def _has(texts: Tensor, words: Tensor) -> Tensor:
    """(c, m) whether the text of a candidate (c, j) has word m of its row of `words` (c, m)."""
    return reduce(torch.bitwise_or, (text[:, None] == words for text in texts.unbind(1))) & (words > 0)


def _share(hits: Tensor, weights: Tensor) -> Tensor:
    """(..., c) share of the candidate's word weights that matched; 0 for a candidate without words."""
    return (hits * weights).sum(-1) / weights.sum(-1).clamp(min=1e-6)


_START = {  # weights of the lexical prior before training; zero for features that are not named here
    "text_fresh_squared": 5.0,
    "hint_squared": 3.0,
    "hints": 1.0,
    "hinted": 9.0,
    "hint_unseen": 5.0,
    "hints_done": 9.0,
    "done_once": -2.0,
    "done_twice": -2.0,
    "done_often": -3.0,
    "just_done": -0.5,
    "chosen": -2.0,
    "filled": -2.0,
    "quoted": 3.0,
    "noted": 1.5,
    "was_noted": 1.5,
    "back": -3.0,
    "home": -4.0,
    "finish": -1.2,
    "fail": -3.0,
    "enter": -1.0,
    "down": -0.5,
    "up": -2.0,
}


PAIR_BUCKETS, MET_BUCKETS = 2**18, 2**16
_CODES = ("codes", "instruction_codes", "anchors")
_CHOICES = torch.tensor([KINDS.index(kind) for kind in CHOICES])
_MIX_CANDIDATE, _MIX_OTHER, _MIX_SPOT = 0x1E3779B1, 0x05EBCA77, 0x2545F491
_ANCHOR_SHIFT = torch.tensor([2**30 + 1, 2**30 + 2**29])
_PAGES, _PAGE_SHIFT = [0, 2], torch.tensor([1, 2**29])
"""Numbers that give titles, last targets, words and pages different codes."""


class Hidden(NamedTuple):
    """The inputs that one update hides from the network, so that it learns to work without them."""

    words: Tensor
    """(b, m) words of the instruction whose vectors are hidden; which candidates have them stays visible."""
    pairs: Tensor
    """(b,) rows for which the memory of pairs is switched off."""


class PairMemory(nn.Module):
    """Weights of pairs: a candidate with a word of the instruction, the screen's title or the last target.

    It learns that `School` goes with `Theatre play`, or `Small` with `tiny`, from a few examples; an embedding needs
    hundreds. A control whose label no lesson had is recalled by its spot on the page. All weights start at zero.
    """

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(PAIR_BUCKETS, 1)
        nn.init.zeros_(self.table.weight)
        self.register_buffer("known", torch.zeros(MET_BUCKETS))
        self.known: Tensor

    def meet(self, situations: Batch) -> None:
        """Note the candidates, words and pages of lessons by their codes."""
        for name in _CODES:
            self.known[getattr(situations, name).flatten() % MET_BUCKETS] = 1.0

    def forward(
        self, batch: Batch, kinds: Tensor, weights: Tensor, grid: CandidateGrid, hidden: Hidden | None
    ) -> Tensor:
        """(c,) the sum that the pairs add to the logits."""
        if hidden is None:  # What no lesson had shares its weights with something else by chance.
            met = {name: getattr(batch, name) * (self.known[getattr(batch, name) % MET_BUCKETS] > 0) for name in _CODES}
            batch = batch._replace(**met)
        codes = grid.take(batch.codes)[:, None]
        heard = weights[batch.instruction.long()] * (batch.instruction_codes > 0)
        if hidden is not None:
            heard = heard * ~hidden.words
        words = self._recall(codes, batch.instruction_codes[grid.owner]) * heard[grid.owner]
        anchors = batch.anchors[grid.owner, :2]
        is_choice = torch.isin(kinds, _CHOICES)
        around = self._recall(codes, anchors + _ANCHOR_SHIFT) * ((anchors > 0) & ~is_choice[:, None])
        known: Tensor = (words.sum(-1) + around.sum(-1)) * (codes[:, 0] > 0)
        known = known + self._by_spot(batch, grid, heard)
        return known if hidden is None else known * ~hidden.pairs[grid.owner]

    def _by_spot(self, batch: Batch, grid: CandidateGrid, heard: Tensor) -> Tensor:
        """(c,) the same for the spots of unknown controls on their page, and on pages that are entered from another."""
        spots = grid.take(batch.spots)
        at = ((grid.take(batch.codes) == 0) & (spots > 0)).nonzero().squeeze(1)
        owner = grid.owner[at]
        pages = batch.anchors[owner][:, _PAGES]
        places = (spots[at, None] * _MIX_SPOT + pages * _MIX_OTHER + _PAGE_SHIFT) % 2**30
        said = self._recall(places[..., None], batch.instruction_codes[owner][:, None]) * heard[owner][:, None]
        found = (said.sum(-1) + self._recall(places, 0)) * (pages > 0)
        return heard.new_zeros(len(spots)).index_copy(0, at, found.sum(-1))

    def _recall(self, codes: Tensor, others: Tensor | int) -> Tensor:
        mixed = codes * _MIX_CANDIDATE + others * _MIX_OTHER
        return self.table((mixed ^ (mixed >> 19)) % PAIR_BUCKETS).squeeze(-1)  # type: ignore[no-any-return]


class NetworkShape(NamedTuple):
    width: int = 64
    word_width: int = 64
    layers: int = 2
    heads: int = 4
    exact_bias: float = 4.0
    """Start value of a candidate's extra attention to the words of the instruction that its own text has."""


class PolicyNetwork(nn.Module):
    def __init__(self, shape: NetworkShape) -> None:
        super().__init__()
        self.shape = shape
        wide, word = shape.width, shape.word_width
        self.words = nn.EmbeddingBag(WORD_BUCKETS + PIECE_BUCKETS, word, mode="mean")
        self.unknown = nn.Parameter(torch.zeros(word))
        self.kinds = nn.Embedding(len(KINDS), wide)
        self.word_flags = nn.Linear(len(WORD_FLAGS), word, bias=False)
        self.near = nn.Conv1d(word, wide, 3, padding=1)
        self.far = nn.Conv1d(wide, wide, 3, padding=1)
        self.candidate = nn.Linear(2 * word + len(FLAGS) + len(MATCHES), wide)
        self.scene = nn.Linear(5 * word, wide)
        self.scene_to_candidate = nn.Linear(wide, wide)
        self.attend = InstructionAttention(wide, shape.heads, shape.exact_bias)
        self.pool = nn.Linear(wide, 1)
        self.layers = nn.ModuleList(CandidateLayer(wide, shape.heads) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(wide)
        self.score = nn.Linear(wide, 1)
        self.pairs = PairMemory()
        self.prior = nn.Linear(len(MATCHES) + len(FLAGS) + len(KINDS), 1, bias=False)
        nn.init.normal_(self.words.weight, std=word**-0.5 * 2)
        nn.init.zeros_(self.score.weight)
        nn.init.zeros_(self.score.bias)
        prior = [_START.get(name, 0.0) for name in (*MATCHES, *FLAGS, *KINDS)]
        self.prior.weight.data.copy_(torch.tensor([prior]))

    def word_vectors(self, bags: Bags) -> Tensor:
        """Return the vectors of words, (words, word_width); a word without rows is zero."""
        vectors: Tensor = self.words(bags.rows, bags.offsets)
        return vectors

    def forward(self, batch: Batch, vectors: Tensor, weights: Tensor, hidden: Hidden | None = None) -> Tensor:
        """Return the logits (b, n) of all candidates, -inf for padding; computed in the precision of `vectors`.

        Args:
            batch: situations whose ids index `vectors`.
            vectors: the result of `word_vectors`; row 0 belongs to no word.
            weights: (words,) weights of shared words.
            hidden: inputs to hide; only in training.
        """
        grid, weights = grid_of(batch.exists), weights.to(vectors.dtype)
        flags = grid.take(batch.flags).to(vectors.dtype)
        texts, fields, kinds = (grid.take(each) for each in (batch.texts, batch.fields, batch.kinds.long()))
        matches = match_words(batch, texts, fields, grid, is_open(flags), weights)
        spoken, said = self.read_instruction(batch, vectors, hidden)
        context = (batch.title, batch.shown, batch.last, batch.before, batch.hint)
        text_means, field_means, *scenes = _means(vectors, texts, fields, *context)
        scene = self.scene(torch.cat(scenes, -1))
        tokens = self.candidate(torch.cat([text_means, field_means, flags, matches.scalars], -1))
        tokens = tokens + self.kinds(kinds) + self.scene_to_candidate(scene)[grid.owner]
        tokens = tokens + self.attend(tokens, spoken, said, matches.words, grid)
        share = self.pool(spoken).squeeze(-1).masked_fill(~said, -1e4).softmax(-1)
        gist = scene + (share[..., None] * spoken).sum(1)
        for layer in self.layers:
            gist, tokens = layer(gist, tokens, grid)
        learned = self.score(self.norm(tokens)).squeeze(-1)
        one_hot = functional.one_hot(kinds, len(KINDS)).to(vectors.dtype)
        prior = self.prior(torch.cat([matches.scalars, flags, one_hot], -1)).squeeze(-1)
        known = self.pairs(batch, kinds, weights, grid, hidden)
        logits: Tensor = grid.pad(learned + prior + known).masked_fill(~batch.exists, -torch.inf)
        return logits

    def read_instruction(self, batch: Batch, vectors: Tensor, hidden: Hidden | None) -> tuple[Tensor, Tensor]:
        said = batch.instruction > 0
        words = functional.embedding(batch.instruction.long(), vectors)
        if hidden is not None:
            words = torch.where(hidden.words[..., None], self.unknown, words)
        words = (words + self.word_flags(batch.instruction_flags.to(vectors.dtype))) * said[..., None]
        places = grid_of(said)
        near = functional.gelu(_convolved(self.near, words, places))
        far = functional.gelu(_convolved(self.far, places.pad(near), places))
        return places.pad(near + far), said


def _convolved(convolution: nn.Conv1d, words: Tensor, places: CandidateGrid) -> Tensor:
    """(c, out) a convolution over three words of (b, m, width), computed for words only and not for padding."""
    around = places.take(functional.pad(words, (0, 0, 1, 1)).unfold(1, 3, 1))
    return functional.linear(around.flatten(1), convolution.weight.flatten(1), convolution.bias)


class InstructionAttention(nn.Module):
    """Each candidate attends to the words of the instruction, with a bias towards words that its own text has."""

    def __init__(self, width: int, heads: int, exact_bias: float) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.exact = nn.Parameter(torch.full((heads,), exact_bias))
        self.nothing = nn.Parameter(torch.zeros(heads))

    def forward(self, tokens: Tensor, spoken: Tensor, said: Tensor, shared: Tensor, grid: CandidateGrid) -> Tensor:
        """Return the attended instruction for each candidate, (c, width).

        Args:
            tokens: (c, width) candidates.
            spoken: (b, m, width) words of the instruction in context.
            said: (b, m) true for a word, false for padding.
            shared: (c, m) 1 if the candidate has the word.
            grid: positions of the candidates in the batch.
        """
        query = _split(grid.pad(self.query(tokens)), self.heads)
        key, value = _split(self.key(spoken), self.heads), _split(self.value(spoken), self.heads)
        scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5)
        scores = scores + self.exact[:, None, None] * grid.pad(shared)[:, None]
        scores = scores.masked_fill(~said[:, None, None], -torch.inf)
        # A candidate that the instruction does not mention may attend to no word.
        nothing = self.nothing[None, :, None, None].expand(*scores.shape[:3], 1)
        share = torch.cat([scores, nothing], -1).softmax(-1)[..., :-1]
        heard: Tensor = self.out(grid.take(_join(share @ value)))
        return heard


class CandidateLayer(nn.Module):
    """One pre-norm transformer layer over the summary vector of the task and the candidates."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mixing = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inputs, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, gist: Tensor, tokens: Tensor, grid: CandidateGrid) -> tuple[Tensor, Tensor]:
        rows = len(gist)
        inputs = self.inputs(self.before_attention(torch.cat([gist, tokens])))
        padded = torch.cat([inputs[:rows, None], grid.pad(inputs[rows:])], 1)
        query, key, value = (_split(part, self.heads) for part in padded.chunk(3, -1))
        exists = functional.pad(grid.exists, (1, 0), value=True)
        mixed = _join(functional.scaled_dot_product_attention(query, key, value, exists[:, None, None]))
        heard = torch.cat([mixed[:, 0], grid.take(mixed[:, 1:])])
        all_tokens = torch.cat([gist, tokens]) + self.out(heard)
        all_tokens = all_tokens + self.narrow(functional.gelu(self.widen(self.before_mixing(all_tokens))))
        return all_tokens[:rows], all_tokens[rows:]


def _means(vectors: Tensor, *texts: Tensor) -> Sequence[Tensor]:
    """Return the mean word vectors (n, word_width) of each of `texts` (n, words); zero without words. One call."""
    words, counts = torch.cat([ids.flatten() for ids in texts]), torch.cat([(ids > 0).sum(1) for ids in texts])
    said = words[words > 0].long()
    means = functional.embedding_bag(said, vectors, counts.cumsum(0) - counts, mode="mean")
    return torch.split(means, [len(ids) for ids in texts])


def _split(tokens: Tensor, heads: int) -> Tensor:
    return tokens.view(*tokens.shape[:2], heads, -1).transpose(1, 2)


def _join(tokens: Tensor) -> Tensor:
    return tokens.transpose(1, 2).flatten(2)
