"""The exploration policy: start values of the prior's weights, by name."""

from __future__ import annotations

import torch
from torch import Tensor

from trajmill.stages.models.embedded.network.matching import MATCHES
from trajmill.stages.models.embedded.reading.features import FLAGS, KINDS

_START = {
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
    "enter": -1.0,
    "down": -0.5,
    "up": -2.0,
}


def prior_weights() -> Tensor:
    """(MATCHES + FLAGS + KINDS,) start weights; zero for features that are not named here."""
    return torch.tensor([_START.get(name, 0.0) for name in (*MATCHES, *FLAGS, *KINDS)])
