"""The error tree: every error that outspan raises on purpose, in one place.

    OutspanError
    ├── InputError (ValueError)          unusable input: names the file, the line and the remedy
    ├── NotInstalled (ImportError)       an extra is missing: says what to install
    ├── ModelError (RuntimeError)        an embedding model cannot be used
    │   ├── ModelNotFound                not in the cache, and the network was not or may not be tried
    │   └── WrongDigest                  the bytes are not those of the named model: refused
    ├── EmbedderFailed (RuntimeError)    the embedder did not answer, or answered nonsense, for some text
    ├── RegimeMismatch (ValueError)      a threshold or a run belongs to another measuring regime
    └── ResumeError (RuntimeError)       an interrupted run cannot be continued as asked

Each subclasses the builtin that a caller would expect, so ``except ValueError`` keeps working.
"""

from __future__ import annotations

from pathlib import Path


class OutspanError(Exception):
    """Base of every error raised on purpose; its text is fit to be shown to a user."""


class InputError(OutspanError, ValueError):
    """Input that cannot be used.

    Parameters
    ----------
    problem : what is wrong, in one clause.
    remedy : what the user can do about it, in one clause.
    path, line : where; ``line`` counts from 1.
    """

    def __init__(
        self, problem: str, *, remedy: str = "", path: Path | str | None = None, line: int | None = None
    ) -> None:
        self.problem = problem
        self.remedy = remedy
        self.path = None if path is None else str(path)
        self.line = line
        where = "" if path is None else f"{path}: " if line is None else f"{path}, line {line}: "
        super().__init__(f"{where}{problem}" + (f". {remedy}" if remedy else ""))


class NotInstalled(OutspanError, ImportError):
    """An optional dependency is missing."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package '{package}'. Install it: pip install 'outspan[{extra}]'"
        )


class ModelError(OutspanError, RuntimeError):
    """An embedding model cannot be used."""


class ModelNotFound(ModelError):
    """The model's files are not here and could not, or may not, be fetched."""


class WrongDigest(ModelError):
    """The model's files are not the bytes that the registry pins."""


class EmbedderFailed(OutspanError, RuntimeError):
    """The embedder raised, or returned vectors that cannot be used."""


class RegimeMismatch(OutspanError, ValueError):
    """Two measurements, or a threshold and a measurement, come from different regimes."""


class ResumeError(OutspanError, RuntimeError):
    """An interrupted run cannot be continued with these options."""
