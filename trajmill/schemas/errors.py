"""The errors of trajmill: a failed episode is data, and wrong input gives one clear line.

`FailureClass` says what caused a failure. The classes are never mixed, so that the crash of an environment is never
counted as a reward.
"""

from __future__ import annotations

from enum import StrEnum


class FailureClass(StrEnum):
    ENVIRONMENT = "environment"
    """The environment crashed, hung or gave invalid answers during an episode."""
    SETUP = "setup"
    """The environment could not start, or could not reach the start state of the query."""
    UNREACHABLE = "unreachable"
    """A server that the environment needs stayed away; the stage ends, and the same command continues it."""
    MODEL = "model"
    """A model server did not answer within its bounds."""
    JUDGE = "judge"
    """A critic failed or gave no valid answer; this is no verdict."""
    TASK = "task"
    """The query itself is wrong: its start state or goal is malformed, or its reference path fails."""
    TRAINING = "training"
    """A training gave no new policy."""
    RECORD = "record"
    """A stored record of a finished attempt cannot be read."""
    LIMIT = "limit"
    """A limit on steps, seconds or tokens was reached."""


class TrajmillError(Exception):
    """Base of all errors that trajmill raises on purpose; its text is one line for the user."""


class BadInputError(TrajmillError):
    """A file, option or value from the user is wrong; the text says what, where and what to do."""


class TrainingFailedError(TrajmillError):
    """A training gave no new policy, so the old one stays.

    The text says why: a loss that is no number, memory that ran out, a trainer that died, hung or wrote nothing.
    """


class StageError(TrajmillError):
    """A stage could not make a row; `failure_class` is the cause."""

    failure_class: FailureClass

    def __init__(self, message: str, failure_class: FailureClass | None = None) -> None:
        """By default the cause is that of the error's class."""
        super().__init__(message)
        self.failure_class = failure_class or self.failure_class


class EnvironmentFailure(StageError):
    """The environment failed (or, with `SETUP`, could not be prepared)."""

    failure_class = FailureClass.ENVIRONMENT


class ModelFailure(StageError):
    """A model did not answer within its bounds."""

    failure_class = FailureClass.MODEL


class JudgeFailure(StageError):
    """A critic gave no usable verdict."""

    failure_class = FailureClass.JUDGE
