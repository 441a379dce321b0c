"""Every error that Étude raises on purpose, in one tree.

    EtudeError
    ├── ConfigError            the call cannot be: raised before anything is launched
    │   ├── SpaceError         a search space that cannot be
    │   ├── SignatureError     parameters and functions that do not fit together
    │   ├── FileError          an experiment file that cannot be read
    │   ├── SandboxMissing     a sandbox that this machine does not give
    │   ├── BaselineError      a program that does not run untouched, so that no variant of it can be judged
    │   ├── ExpressionError    a claim that may not be evaluated, or has no truth value
    │   │   └── MissingFactError   it looks at a fact that was not seen
    │   └── RemovalRefused     a component that cannot be taken out of a model
    ├── StudyError             a study folder that cannot be used
    │   ├── NotAStudyError     the folder holds no journal of ours
    │   ├── JournalError       the journal is damaged, foreign or from a later version
    │   ├── DefinitionChangedError   a study whose definition is no longer the same
    │   └── StudyInUseError    another driver is working on it
    ├── ScriptError            a script raised something while the command line read it
    ├── MageError              a variant of code cannot be written, applied, run or explained
    │   ├── BackendError       nobody could be asked, or there was no answer
    │   ├── BudgetSpent        a call was not made: it could have passed a limit of the user's
    │   ├── ChangeRefused      a change of which nothing was applied
    │   │   ├── BadReply       the answer holds none that could be read
    │   │   └── PatchRefused   it cannot be applied as it is written
    │   ├── CommandError       a program did not come to its end, or left no metric
    │   └── UnfoundedError     an explanation says what its report does not
    ├── ResultError            what the training function returned or reported cannot be used
    ├── RanksError             the ranks of a trial do not go on together
    │   ├── RankLostError      another rank ended, hangs, or waits for something else
    │   └── DriftError         a parameter is no longer the same on all ranks
    ├── StateError             what a trial keeps cannot be saved, or a saved state cannot be used
    └── Invalid                raised by users: this configuration cannot be, and that is no failure

A message says what was given, why it cannot be, and the mend. ``TransitionError`` and
``assert`` are for our own mistakes and are no part of the tree. ``BadReply`` and ``PatchRefused`` hold reasons as the
mage's ladder knows them, and lie where refusals are made (``etude.mage.patch.refusals``).
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class EtudeError(Exception):
    """Base of every error that Étude raises on purpose."""


class ConfigError(EtudeError, ValueError):
    """The call cannot be carried out; nothing was launched."""


class SpaceError(ConfigError):
    """A search space that cannot be."""


class SignatureError(ConfigError):
    """Parameters and functions that do not fit together."""


class FileError(ConfigError):
    """An experiment file that cannot be read, or says what cannot be.

    Attributes:
        file: Its name, as it was given; or the argument of the command line.
        line: Where the first of what is wrong stands, from 1.
        column: Likewise, from 1.
    """

    def __init__(self, message: str, *, file: str = "", line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.file = file
        self.line = line
        self.column = column


class SandboxMissing(ConfigError):  # noqa: N818 - it is no mishap: nothing is run without
    """A sandbox that was asked for, or is the default, cannot be had here; no other one was taken in its place."""


class BaselineError(ConfigError):
    """The untouched program does not run, or cannot be watched: no patch has anything to do with it."""


class ExpressionError(ConfigError):
    """An expression that may not be evaluated, or has no truth value."""


class MissingFactError(ExpressionError):
    """An expression looks at a fact that is not there."""


class RefusalCode(Enum):
    """Why a component cannot be taken out of a model."""

    NOT_FOUND = "not found"
    """The model has no such submodule, or the layer no such part."""
    EVERYTHING = "everything"
    """It is the whole model."""
    DEAD = "dead"
    """It is never used with this example, so nothing would change."""
    UNTRACEABLE = "untraceable"
    """The model could not be run with the example, or gives what cannot be followed."""
    NO_PATH = "no path"
    """What the model gives would no longer depend on what goes in."""
    NOT_FLOAT = "not float"
    """It gives indices or masks, for which nothing can stand in."""
    OWNED_STATE = "owned state"
    """It gives, besides its result, something of its own that other layers use."""
    WITHOUT_CALL = "without call"
    """Its parameters are used without calling it."""
    TIED = "tied"
    """A tensor would have to be resized that several layers share."""
    TOO_MUCH = "too much"
    """More of the model would have to be rebuilt than leaves arms comparable."""
    DOES_NOT_FIT = "does not fit"
    """No rung of the ladder gives the shapes that the rest of the model wants."""
    FAILED_CHECK = "failed check"
    """The repaired model runs, and a check says that it is not what was meant."""


WHOLE_MODEL: Final = "the model"
"""What a refusal names that holds whatever is taken out."""


class RemovalRefused(ConfigError):  # noqa: N818 - it is no mishap: the answer to a question
    """A component cannot be taken out of a model; the model was not touched.

    Attributes:
        code: Why not, one of a few.
        what: The component.
        why: Why not, in words.
        instead: Path of the smallest enclosing block that can be taken out; empty if there is none or none was sought.
        part: Which parts of it were asked for, such as ``filters``; empty if it was all of it.
    """

    def __init__(self, code: RefusalCode, what: str, why: str, *, instead: str = "", part: str = "") -> None:
        mend = f" Take out {instead!r} instead, which contains it." if instead else ""
        of = f"These {part} of " if part else ""
        is_all = what == WHOLE_MODEL and code is RefusalCode.UNTRACEABLE
        said = "Nothing can be taken out of the model" if is_all else f"{of}{what!r} cannot be taken out"
        super().__init__(f"{said} ({code.value}): {why}{mend}")
        self.code = code
        self.what = what
        self.why = why
        self.instead = instead
        self.part = part

    def __reduce__(self) -> tuple[object, ...]:
        """It travels between processes."""
        return _refused, (self.code, self.what, self.why, self.instead, self.part)


def _refused(code: RefusalCode, what: str, why: str, instead: str, part: str = "") -> RemovalRefused:
    return RemovalRefused(code, what, why, instead=instead, part=part)


class StudyError(EtudeError):
    """A study folder that cannot be used as asked."""


class NotAStudyError(StudyError):
    """The folder holds no journal of ours; it was not touched."""


class JournalError(StudyError):
    """The journal is damaged, foreign or from a later version; it was not touched."""


class DefinitionChangedError(StudyError):
    """A study was to go on with another definition than it began with: by its name, or since a file was edited."""


class StudyInUseError(StudyError):
    """Another driver is working on this study."""


class ScriptError(EtudeError):
    """A script raised something while the command line read it. The message is the traceback, from the script on."""


class MageError(EtudeError):
    """A variant of code cannot be written, applied, run or explained."""


class BackendError(MageError):
    """A backend could not be asked, or did not answer.

    Attributes:
        code: What kind of failure: ``rate limit``, ``spend limit``, ``overloaded``, ``server``, ``connection``,
            ``timeout``, ``key``, ``unknown model``, ``too large``, ``bad request``, ``refused host``,
            ``not installed``.
        may_retry: Whether asking again could help.
        after_s: So long one has to wait at least; None where nothing is said.
        status: The HTTP status, if there was one.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        may_retry: bool = False,
        after_s: float | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.may_retry = may_retry
        self.after_s = after_s
        self.status = status


class BudgetSpent(MageError):  # noqa: N818 - nothing went wrong: the user's limit is kept
    """A call was not made: it could have passed a limit of the user's.

    Attributes:
        what: Which limit: ``calls``, ``input``, ``output``, ``cost`` or ``wall_s``.
        variant: Whose; empty if it is that of the whole study.
    """

    def __init__(self, message: str, *, what: str, variant: str = "") -> None:
        super().__init__(message)
        self.what = what
        self.variant = variant


class ChangeRefused(MageError):  # noqa: N818 - it is no mishap: whoever wrote the change is told why
    """A change of code that was refused, and of which nothing was applied."""


class CommandError(MageError):
    """A command did not come to its end, or left no metric."""


class UnfoundedError(MageError):
    """An explanation says what its report does not.

    Attributes:
        numbers: Numbers that do not occur in it.
        names: Names that do not.
    """

    def __init__(self, message: str, *, numbers: tuple[str, ...] = (), names: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.numbers = numbers
        self.names = names


class ResultError(EtudeError):
    """What the training function returned or reported cannot be used."""


class RanksError(EtudeError):
    """The ranks of a trial do not go on together."""


class RankLostError(RanksError):
    """Another rank ended, hangs, or waits for something else; it is seldom this rank's own fault."""


class DriftError(RanksError):
    """A parameter is no longer the same on all ranks, so that they train models of their own."""


class StateError(EtudeError):
    """What a trial keeps cannot be saved, or a saved state cannot be used."""


class Invalid(EtudeError):  # noqa: N818 - users raise it: `raise etude.Invalid("width must divide heads")`
    """Raise it in a training, model or data function: this configuration cannot be.

    The trial ends as *invalid*, which is not a failure: it is not retried, not counted
    against the worker, and shown apart.

    Args:
        reason: Why the configuration cannot be, for the study's table.

    Example:
        >>> raise Invalid("heads=3 does not divide width=64")
        Traceback (most recent call last):
        ...
        etude.core.errors.Invalid: heads=3 does not divide width=64
    """


class TransitionError(AssertionError):
    """The lifecycle table has no row for what happened: a mistake of ours, not of the user."""
