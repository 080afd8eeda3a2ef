"""Makes the embedded judge."""

from __future__ import annotations

from trajmill.stages.critics.annotated.step_critic import AnnotatedStepCritic
from trajmill.stages.critics.annotated.text_channel import AnnotatedTextChannel
from trajmill.stages.critics.annotated.tree_channel import AnnotatedTreeChannel
from trajmill.stages.critics.consensus import Judge
from trajmill.stages.critics.voting import single_vote


def annotated_judge() -> Judge:
    """The judge that knows the annotations of a query and needs no model.

    Its two channels read the same trees and the same annotations, so they are no independent evidence.
    """
    return Judge(AnnotatedStepCritic(), (single_vote(AnnotatedTextChannel()), single_vote(AnnotatedTreeChannel())))
