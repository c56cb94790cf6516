"""Run the entire pipeline on real pages: `make demo`, or `clozeline demo --output runs/demo`.

The demo writes Python's reference documentation to a WARC file, makes shards, trains a masked language
model on two processes with ZeRO 2, shows what the model has learned, and exports it: transformers makes the same
predictions. Each step is a command, printed before it runs. A second demo skips the finished steps.
"""

import argparse
import shlex
import shutil
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from clozeline.command import stopping_at_signals
from clozeline.errors import ClozelineError, IntegrityError, StorageError
from clozeline.tools.experiments.multirun.runner import RANKS, ROOT, run_step, start_training, write_pages
from clozeline.tools.models.export.quiet_transformers import import_transformers
from clozeline.train.logs.json_lines import read_lines

RECIPE: Final = "configs/recipes/demo/pipeline.yaml"
TRAINING: Final = "configs/recipes/demo/train.yaml"
HELDOUT: Final = "corrupt/masked_lm-20/heldout/manifest.json"
"""Held-out set for the loss: two masks in ten tokens; training has four."""
MARGIN: Final = 0.25
"""Nats by which the held-out loss must be below the unigram entropy to count as clearly below."""
_CLOSE: Final = 1e-4
"""Maximum difference of two probabilities."""
SENTENCES: Final = (
    "If the <mask> is not found, raise an exception.",
    "Return True if the <mask> is empty, False otherwise.",
    "Changed in <mask> 3.8: the new argument was added.",
)


def compare_with_entropy(loss: float, entropy: float) -> str:
    """Return a verdict on a held-out loss, given the entropy of the same labels."""
    difference = entropy - loss
    if difference >= MARGIN:
        return f"below it by {difference:.2f} nats: the model uses context, not only word frequencies"
    return f"not clearly below it ({difference:+.2f} nats): the model has not learned to use context"


def heldout_result(run: Path) -> dict[str, Any]:
    """Return the last held-out evaluation in a run's metrics; StorageError if there is none."""
    evaluated = [record["heldout"] for record in read_lines(run / "metrics.jsonl") if record.get("heldout")]
    if not evaluated:
        raise StorageError(f"{run / 'metrics.jsonl'}: no held-out evaluation; remove {run} and train again")
    return dict(next(iter(evaluated[-1].values())))


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
    from clozeline.train.open_run import open_run

    pipeline = import_transformers("a comparison").pipeline
    trained, fill = open_run(run), pipeline("fill-mask", model=str(exported))
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


def _demo(output: Path, steps: int | None) -> None:
    warc, shards, run, exported = (output / name for name in ("pydoc.warc.gz", "shards", "train", "exported"))
    seconds = {"pages": write_pages(warc)}
    overrides = [f"input={warc}", f"output={shards}", "executor.tasks=2"]
    seconds["pipeline"] = run_step("clozeline", "pipeline", "--config", RECIPE, *overrides)
    words = [f"data.shards={shards / 'corrupt/masked_lm/train/manifest.json'}", f"data.heldout={shards / HELDOUT}"]
    words += [f"output={run}", "zero.stage=2"]
    words += [] if steps is None else [f"steps={steps}", f"schedule.warmup={steps // 10}"]
    seconds["train"] = start_training(RANKS, TRAINING, *words)
    heldout = heldout_result(run)
    loss, entropy = heldout["loss"], heldout["unigram_entropy"]
    print(f"\nheld-out loss                      {loss:.4f} nats")
    print(f"unigram entropy of the same tokens {entropy:.4f} nats   ({heldout['labels']:,} masked tokens)")
    print(f"→ {compare_with_entropy(loss, entropy)}")
    texts = [part for text in SENTENCES for part in ("--text", text)]
    seconds["guesses"] = run_step("clozeline", "fill-mask", run, "--heldout", "5", *texts)
    seconds["export"] = export_run(run, exported)
    print()
    print(compare_with_transformers(run, exported, SENTENCES))
    print(f"\nreport of the data:     {shards / 'report.html'}")
    print(f"report of the training: {run / 'report.html'}")
    print(f"model for transformers: {exported}")
    print("seconds: " + ", ".join(f"{name} {value:.0f}" for name, value in seconds.items()), flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("runs/demo"), help="folder of all files (%(default)s)")
    parser.add_argument("--steps", type=int, help="training steps (default: the configuration's)")
    options = parser.parse_args(arguments)
    output = options.output
    if Path.cwd() != ROOT:
        output = output.resolve()
        print(f"$ cd {shlex.quote(str(ROOT))}")
    try:
        with stopping_at_signals():
            _demo(output, options.steps)
    except ClozelineError as error:
        print(f"demo: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("demo: stopped; the same command resumes", file=sys.stderr)
        return 75
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
