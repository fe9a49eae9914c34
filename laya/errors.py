"""Every error that laya raises on purpose; each also is the builtin that a caller would expect.

LayaError
├── CheckpointError
│   ├── CheckpointNotFoundError    (FileNotFoundError)
│   ├── CheckpointFormatError      (ValueError)
│   ├── CheckpointIntegrityError   (ValueError)
│   └── HubError                   (OSError)
├── QuestionError                  (ValueError)
├── StateError                     (TypeError)
├── OptionError                    (ValueError)
├── HookError                      (TypeError)
└── HookTimeoutError               (TimeoutError)

A message names the culprit, what was wrong with it and the next step. It never holds a state's text.
"""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path


class LayaError(Exception):
    """Catch everything that laya raises on purpose."""


class CheckpointError(LayaError):
    """Report a checkpoint that can't be used."""

    def __init__(self, message: str, *, model_id: str | None = None, path: str | Path | None = None) -> None:
        super().__init__(message)
        self.model_id = model_id
        """The repository id or folder that the caller asked for."""
        self.path = path
        """The file at fault, where there is one."""


class CheckpointNotFoundError(CheckpointError, FileNotFoundError):
    """Report a checkpoint, or one of its files, that isn't there."""


class CheckpointFormatError(CheckpointError, ValueError):
    """Report a checkpoint file whose content laya can't read."""


class CheckpointIntegrityError(CheckpointError, ValueError):
    """Report a checkpoint file whose digest isn't the expected one."""

    def __init__(
        self,
        message: str,
        *,
        model_id: str | None = None,
        path: str | Path | None = None,
        expected: str | None = None,
        actual: str | None = None,
    ) -> None:
        super().__init__(message, model_id=model_id, path=path)
        self.expected = expected
        """The digest asked for."""
        self.actual = actual
        """The digest found."""


class HubError(CheckpointError, OSError):
    """Report a Hub that can't be reached or that refuses the request."""

    def __init__(
        self,
        message: str,
        *,
        model_id: str | None = None,
        path: str | Path | None = None,
        status: int | None = None,
        retryable: bool = False,
    ) -> None:
        super().__init__(message, model_id=model_id, path=path)
        self.status = status
        """The HTTP status, where the Hub answered."""
        self.retryable = retryable
        """True where the same request may succeed later."""


class QuestionError(LayaError, ValueError):
    """Report a question that can't be asked."""

    def __init__(self, message: str, *, question_id: Hashable | None = None) -> None:
        super().__init__(message)
        self.question_id = question_id
        """The question at fault; None where the whole set is."""


class StateError(LayaError, TypeError):
    """Report a state, or a list of states, of the wrong type."""

    def __init__(self, message: str, *, index: int | None = None) -> None:
        super().__init__(message)
        self.index = index
        """The state's position in the call; None where the whole argument is at fault."""


class OptionError(LayaError, ValueError):
    """Report an argument whose value is out of range or unknown."""

    def __init__(self, message: str, *, option: str | None = None) -> None:
        super().__init__(message)
        self.option = option
        """The argument's name."""


class HookError(LayaError, TypeError):
    """Report a value given as a hook that isn't one."""

    def __init__(self, message: str, *, option: str | None = None, event: str | None = None) -> None:
        super().__init__(message)
        self.option = option
        """The argument's name: `hooks`, `on_predict_start` or `on_predict_end`."""
        self.event = event
        """The event at fault, where the value has one that can't be called."""


class HookTimeoutError(LayaError, TimeoutError):
    """Report a hook that took longer than its timeout."""

    def __init__(
        self, message: str, *, hook: str | None = None, event: str | None = None, timeout: float | None = None
    ) -> None:
        super().__init__(message)
        self.hook = hook
        """The hook's name."""
        self.event = event
        """The event that it was called for."""
        self.timeout = timeout
        """The seconds that it had."""
