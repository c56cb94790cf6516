"""Import transformers for a comparison: offline, and without what it and the libraries it loads print."""

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from clozeline.errors import ClozelineError, ConfigurationError


def import_transformers(purpose: str) -> ModuleType:
    """Return transformers without progress bars, and without warnings about kernels for other machines.

    Raises:
        ConfigurationError: it is not installed; `purpose` begins the message, such as "--theirs".
    """
    os.environ["HF_HUB_OFFLINE"] = "1"  # read when transformers is imported
    try:
        import transformers
    except ImportError as error:
        raise ConfigurationError(f"{purpose} needs transformers: pip install transformers") from error
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    for library in ("torchao", "torch.utils._pytree"):  # transformers loads torchao if it is installed
        logging.getLogger(library).setLevel(logging.ERROR)
    return transformers


@contextmanager
def refusals_of(folder: Path) -> Iterator[None]:
    """Raise a ConfigurationError with the first sentence of transformers where it cannot run the model of a folder."""
    try:
        yield
    except (ClozelineError, MemoryError):
        raise
    except Exception as error:  # transformers and the libraries below it raise all kinds
        reason = re.split(r"(?<=[.!?])\s", " ".join(str(error).split()), maxsplit=1)[0]
        raise ConfigurationError(f"{folder}: transformers refuses it: {reason} ({type(error).__name__})") from error
