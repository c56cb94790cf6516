"""Open models of fastText, first in a child process."""

import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from clozeline.errors import ConfigurationError
from clozeline.process import ChildLimits, python_command, run_child

_LOAD: Final = "import sys, fasttext; fasttext.load_model(sys.argv[1]).predict('a', k=-1)"
_LOAD_SECONDS: Final = 120


class FastTextModel:
    """A classifier in fastText's format (.bin or .ftz; Joulin et al. 2016, arXiv:1607.01759).

    The library may hang, or end the process, if a file is damaged, so a child process opens the
    file first.

    Args:
        path: file of the model.
        user: what needs the model, for messages.

    Raises:
        ConfigurationError: the package is missing, or the file is not a model.
    """

    def __init__(self, path: Path, user: str) -> None:
        self._model = _load_model(path, user)

    def labels(self) -> tuple[str, ...]:
        """Return all labels of the model, such as `__label__en`."""
        return tuple(label for label, _ in self.rank("a", -1))

    def rank(self, text: str, count: int) -> list[tuple[str, float]]:
        """Return the `count` best labels of a text with their probabilities; -1 for all.

        The model reads one line, so white space becomes blanks.
        """
        labels, scores = self._model.predict(" ".join(text.split()), k=count, threshold=-1.0)
        # rounding may give probabilities above 1
        return [
            (label, min(1.0, float(score))) for label, score in zip(labels, scores, strict=True)
        ]


@cache
def _load_model(path: Path, user: str) -> Any:
    try:
        import fasttext
    except ImportError as error:
        raise ConfigurationError(
            f"{user}: needs the package fasttext-predict ({error}): pip install "
            "'clozeline[quality]'"
        ) from error

    try:
        command: Sequence[str] = python_command("-c", _LOAD, str(path))
        done = run_child(command, limits=ChildLimits(), timeout_s=_LOAD_SECONDS, text=True)
        reason = (
            (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            if done.returncode
            else ""
        )
    except subprocess.TimeoutExpired:
        reason = f"loading it takes more than {_LOAD_SECONDS} s"

    if reason:
        raise ConfigurationError(
            f"{user}: {path}: expected a fastText classifier, .bin or .ftz ({reason}); copy the "
            "file again"
        )

    return fasttext.load_model(str(path))
