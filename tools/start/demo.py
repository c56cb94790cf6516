"""Run the entire pipeline on real pages: `make demo`, or `clozeline demo output=runs/demo`.

The demo writes Python's reference documentation to a WARC file, makes shards, trains a masked
language model on two processes with ZeRO 2, exports it, and shows what the model has learned:
transformers makes the same predictions. Each step is a command, printed before it runs. A second
demo skips the finished steps.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from clozeline.configuration.config import config_class
from clozeline.errors import IntegrityError
from clozeline.tools.command import OutputPath, Positive, run_as_script, run_tool
from clozeline.tools.experiments.multirun.runner import RANKS, ROOT, run_step, write_pages
from clozeline.train.distributed.launcher import free_port

RECIPE: Final = "configs/recipes/demo/pipeline.yaml"
TRAINING: Final = "configs/recipes/demo/train.yaml"
HELDOUT: Final = "corrupt/masked_lm-20/heldout/manifest.json"
"""Held-out set for the loss: two masks in ten tokens; training has four."""
_MAX_DIFFERENCE: Final = 1e-4
"""Maximum difference of two probabilities."""
SENTENCES: Final = (
    "If the <mask> is not found, raise an exception.",
    "Return True if the <mask> is empty, False otherwise.",
    "Changed in <mask> 3.8: the new argument was added.",
)


@config_class
class DemoOptions:
    """Where the demo writes, and how long it trains."""

    output: OutputPath = Path("runs/demo")
    """folder of all files"""
    steps: Positive | None = None
    """training steps; default: those of the configuration"""


def compare_guesses(run: Path, exported: Path, texts: Sequence[str]) -> float:
    """Print what our run and transformers predict for masks.

    Return the largest difference of the probabilities.

    Raises:
        IntegrityError: transformers predicts other words, or with other probabilities.
    """
    from clozeline.tools.models.export.verification import import_transformers
    from clozeline.tools.runs.inference.masked_text import encode_masked_text, guesses
    from clozeline.train.checkpoint.trained_model import TrainedModel

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

    return largest


def _demo(options: DemoOptions) -> None:
    output = options.output if Path.cwd() == ROOT else options.output.resolve()
    warc, shards, run, exported = (
        output / name for name in ("pydoc.warc.gz", "shards", "train", "exported")
    )
    print(f"$ cd {ROOT}")  # where all steps run
    write_pages(warc)
    overrides = [f"input={warc}", f"output={shards}", "executor.tasks=2"]
    run_step("clozeline", "pipeline", "--config", RECIPE, *overrides)
    words = [
        f"data.shards={shards / 'corrupt/masked_lm/train/manifest.json'}",
        f"data.heldout={shards / HELDOUT}",
    ]
    words += [f"output={run}", "zero.stage=2"]
    words += (
        [f"steps={options.steps}", f"schedule.warmup={options.steps // 10}"]
        if options.steps
        else []
    )

    launcher = [
        "deepspeed",
        "--num_accelerators",
        str(RANKS),
        "--master_port",
        str(free_port()),
        "--quiet",
    ]

    run_step(*launcher, "train/main.py", "--config", TRAINING, *words)
    config = exported / "config.json"
    if (
        not config.exists()
        or config.stat().st_mtime < (run / "checkpoints" / "latest").stat().st_mtime
    ):
        shutil.rmtree(exported, ignore_errors=True)
        run_step("clozeline", "export-model", run, exported)

    largest = compare_guesses(run, exported, SENTENCES)
    print(
        f"→ probabilities differ by {largest:.1g} at most: transformers has the model that was "
        "trained here"
    )
    print(
        f"\nreport of the data:     {shards / 'report.html'}\nreport of the training: "
        f"{run / 'report.html'}"
    )
    print(f"model for transformers: {exported}", flush=True)


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, DemoOptions, _demo)


if __name__ == "__main__":
    run_as_script(main)
