"""Export a run, and compare how transformers fills in masks with the run's own predictions."""

import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from clozeline.errors import IntegrityError
from clozeline.tools.experiments.multirun.runner import run_step
from clozeline.tools.models.export.quiet_transformers import import_transformers

_CLOSE: Final = 1e-4
"""maximum difference of two probabilities"""


def export_run(run: Path, exported: Path) -> float:
    """Export the newest checkpoint of a run, if needed, replacing an older export; return the seconds."""
    config = exported / "config.json"
    if config.exists() and config.stat().st_mtime >= (run / "checkpoints" / "latest").stat().st_mtime:
        return 0.0
    shutil.rmtree(exported, ignore_errors=True)
    return run_step("clozeline", "export-model", run, exported)


def compare_with_transformers(run: Path, exported: Path, texts: Sequence[str]) -> str:
    """Compare both sets of predictions if transformers is installed; return a line about it."""
    if find_spec("transformers") is None:
        return "transformers is not installed, so its predictions are not compared: pip install transformers"
    largest = compare_guesses(run, exported, texts)
    return f"→ probabilities differ by {largest:.1g} at most: transformers has the model that was trained here"


def compare_guesses(run: Path, exported: Path, texts: Sequence[str]) -> float:
    """Return the largest difference of the probabilities that run and transformers give to fillers of masks."""
    from clozeline.tools.runs.fill_mask import guesses
    from clozeline.tools.runs.inference.masked_text import encode_masked_text
    from clozeline.tools.runs.inference.trained_model import load_trained

    pipeline = import_transformers("a comparison").pipeline
    trained, fill = load_trained(run), pipeline("fill-mask", model=str(exported))
    mask = trained.tokenizer.piece(trained.tokenizer.vocabulary.id_of("mask", "fill-mask"))
    largest = 0.0
    for text in texts:
        ids, (position,) = encode_masked_text(trained, text)
        ours = guesses(trained, ids, position, 5)
        theirs = fill(text.replace("<mask>", mask), top_k=5)
        shown = (f"{guess.text.strip()} {guess.probability:.4f}" for guess in ours)
        their_shown = (f"{guess['token_str'].strip()} {guess['score']:.4f}" for guess in theirs)
        print(f"{text}\n    ours:         {'  '.join(shown)}\n    transformers: {'  '.join(their_shown)}")
        # its own text of a piece has WordPiece's ##
        if [guess.text for guess in ours] != [trained.tokenizer.decode_part([guess["token"]]) for guess in theirs]:
            raise IntegrityError(f"{exported}: transformers predicts other words for {text!r} than {run}")
        gaps = (abs(guess.probability - their["score"]) for guess, their in zip(ours, theirs, strict=True))
        largest = max(largest, *gaps)
    if largest > _CLOSE:
        raise IntegrityError(f"{exported}: transformers' probabilities differ by {largest:.2g} from those of {run}")
    return largest
