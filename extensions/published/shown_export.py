"""Export a run, and show that transformers makes the same predictions."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from clozeline.errors import IntegrityError
from clozeline.extensions.published.verification import import_transformers
from clozeline.tools.runs.inference.masked_text import encode_masked_text, guesses
from clozeline.tools.start.multirun.runner import run_step
from clozeline.train.checkpoint.trained_model import TrainedModel

_MAX_DIFFERENCE: Final = 1e-4
"""Maximum difference of two probabilities."""


def export_and_compare(run: Path, exported: Path, texts: Sequence[str]) -> list[str]:
    """Export a run, unless it was since its last step, and compare its guesses; return the lines.

    Raises:
        IntegrityError: transformers predicts other words, or with other probabilities.
    """
    config = exported / "config.json"
    if (
        not config.exists()
        or config.stat().st_mtime < (run / "checkpoints" / "latest").stat().st_mtime
    ):
        shutil.rmtree(exported, ignore_errors=True)
        run_step("clozeline", "export-model", run, exported)

    fill = import_transformers("a comparison").pipeline("fill-mask", model=str(exported))
    trained = TrainedModel.open(run)
    largest = 0.0

    for text in texts:
        ids, (position,) = encode_masked_text(trained, text)
        ours = [(guess.text, guess.probability) for guess in guesses(trained, ids, position, 5)]
        answers = fill(text.replace("<mask>", fill.tokenizer.mask_token), top_k=5)
        # decoded by our tokenizer: transformers' own text of a piece has WordPiece's ##
        theirs = [
            (trained.tokenizer.decode_part([answer["token"]]), answer["score"])
            for answer in answers
        ]
        print(text)

        for name, found in (("ours:", ours), ("transformers:", theirs)):
            print(
                f"    {name:<13} "
                + "  ".join(f"{word.strip()} {probability:.4f}" for word, probability in found)
            )

        differences = [abs(a - b) for (_, a), (_, b) in zip(ours, theirs, strict=True)]
        if [word for word, _ in ours] != [word for word, _ in theirs] or max(
            differences
        ) > _MAX_DIFFERENCE:
            raise IntegrityError(
                f"{exported}: transformers makes other predictions for {text!r} than {run}"
            )

        largest = max(largest, *differences)

    return [
        f"→ probabilities differ by {largest:.1g} at most: transformers has the model that was "
        "trained here",
        f"model for transformers: {exported}",
    ]
