"""Choose the threshold of "no answer" (SQuAD 2.0, arXiv 1806.03822).

It is chosen on a dev set, and stored with the run.
"""

import json
from pathlib import Path
from typing import Final

from clozeline.checksummed_json import add_checksum, verify_checksum
from clozeline.errors import IntegrityError, write_note
from clozeline.files import parse_json, publish_text
from clozeline.repair import rebuild_hint

_THRESHOLD_FILE: Final = "answer_threshold.json"


def store_threshold(run: Path, threshold: float, settings: dict[str, object]) -> None:
    """Write the threshold of a run, with the checkpoint and the set on which it was chosen."""
    publish_text(
        run / _THRESHOLD_FILE,
        json.dumps(add_checksum({"threshold": threshold, **settings}), sort_keys=True, indent=1)
        + "\n",
    )


def read_threshold(run: Path, checkpoint: str) -> float:
    """Return the threshold that was stored for a checkpoint, else 0, after a note.

    Raises:
        IntegrityError: the file is damaged.
    """
    path = run / _THRESHOLD_FILE
    try:
        settings = verify_checksum(parse_json(path.read_bytes()), path)
        if settings["checkpoint"] == checkpoint:
            return float(settings["threshold"])
    except FileNotFoundError:
        pass
    except (ValueError, KeyError, TypeError) as error:
        raise IntegrityError(
            f"{path}: not a threshold of answers ({error}); {rebuild_hint(path)}"
        ) from error

    write_note(
        f'{path}: has no threshold of "no answer" for this checkpoint: 0 is used; `clozeline '
        "evaluate` with tune=true chooses one"
    )
    return 0.0
