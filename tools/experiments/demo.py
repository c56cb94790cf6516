"""Run the entire pipeline on real pages: `make demo`, or `clozeline demo --output runs/demo`.

The demo writes Python's reference documentation to a WARC file, makes shards, trains a masked language
model on two processes with ZeRO 2, shows what the model has learned, and exports it: transformers makes the same
predictions. Each step is a command, printed before it runs. A second demo skips the finished steps.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from clozeline.tools.experiments.multirun.demo_chain import heldout_result, run_chain, train, write_pages
from clozeline.tools.experiments.multirun.exported_guesses import compare_with_transformers, export_run
from clozeline.tools.experiments.multirun.runner import run_step

RECIPE: Final = "configs/recipes/demo/pipeline.yaml"
TRAINING: Final = "configs/recipes/demo/train.yaml"
HELDOUT: Final = "corrupt/masked_lm-20/heldout/manifest.json"
"""Held-out set for the loss: two masks in ten tokens; training has four."""
MARGIN: Final = 0.25
"""Nats by which the held-out loss must be below the unigram entropy to count as clearly below."""
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


def _demo(output: Path, steps: int | None) -> None:
    warc, shards, run, exported = (output / name for name in ("pydoc.warc.gz", "shards", "train", "exported"))
    seconds = {"pages": write_pages(warc)}
    overrides = [f"input={warc}", f"output={shards}", "executor.tasks=2"]
    seconds["pipeline"] = run_step("clozeline", "pipeline", "--config", RECIPE, *overrides)
    seconds["train"] = train(run, shards, TRAINING, f"data.heldout={shards / HELDOUT}", steps=steps)
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
    return run_chain("demo", __doc__, _demo, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
