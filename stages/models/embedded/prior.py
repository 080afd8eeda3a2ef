"""The exploration policy: start values of the prior's weights, by name."""

from __future__ import annotations

import torch
from torch import Tensor

from stages.models.embedded.features import FLAGS, KINDS
from stages.models.embedded.matching import MATCHES

_START = {
    "text_fresh_squared": 3.0,
    "hint_squared": 2.0,
    "hints": 1.0,
    "hinted": 7.0,
    "hint_unseen": 2.5,
    "hints_done": 7.0,
    "done_once": -1.0,
    "done_twice": -1.5,
    "done_often": -3.0,
    "just_done": -0.5,
    "chosen": -1.0,
    "filled": -1.0,
    "quoted": 2.0,
    "noted": 1.0,
    "was_noted": 1.0,
    "span": -1.0,
    "back": -2.0,
    "home": -3.0,
    "finish": -1.5,
    "enter": -0.5,
    "down": -0.5,
    "up": -1.5,
}


def prior_weights() -> Tensor:
    """(MATCHES + FLAGS + KINDS,) start weights, zero for all that is not named."""
    return torch.tensor([_START.get(name, 0.0) for name in (*MATCHES, *FLAGS, *KINDS)])
