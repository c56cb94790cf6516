"""Run the entire pipeline on real pages: `make demo`, or `clozeline demo output=runs/demo`.

The demo writes Python's reference documentation to a WARC file, makes shards, trains a masked
language model on two processes with ZeRO 2, exports it for transformers, whose scores are compared
with ours, and shows what the model has learned. Each step is a command, printed before it runs. A
second demo skips the finished steps.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from clozeline.configuration.config import config_class
from clozeline.tools.command import OutputPath, Positive, run_as_script, run_tool
from clozeline.tools.start.multirun.runner import RANKS, ROOT, run_step, write_pages
from clozeline.train.distributed.launcher import free_port

RECIPE: Final = "configs/recipes/demo/pipeline.yaml"
TRAINING: Final = "configs/recipes/demo/train.yaml"
HELDOUT: Final = "corrupt/masked_lm-20/heldout/manifest.json"
"""Held-out set for the loss: two masks in ten tokens; training has four."""
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


def _demo(options: DemoOptions) -> None:
    # they import torch
    from clozeline.model.checkpoints.published_forms import explain_no_source, list_sources
    from clozeline.tools.runs.inference.masked_text import encode_masked_text, guesses
    from clozeline.train.checkpoint.trained_model import TrainedModel

    output = options.output if Path.cwd() == ROOT else options.output.resolve()
    warc, shards, run, exported = (
        output / name for name in ("pydoc.warc.gz", "shards", "train", "exported")
    )
    print(f"$ cd {ROOT}")  # where all steps run
    write_pages(warc)
    overrides = [f"input={warc}", f"output={shards}"]
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
    forms = [*list_sources()]
    for form in forms:
        form.export_run(run, exported)

    print()
    trained = TrainedModel.open(run)
    for text in SENTENCES:
        ids, (position,) = encode_masked_text(trained, text)
        found = guesses(trained, ids, position, 5)
        likely = (f"{guess.text.strip()} {guess.probability:.4f}" for guess in found)
        print(f"{text}\n    {'  '.join(likely)}")

    print(f"report of the data:     {shards / 'report.html'}")
    print(f"report of the training: {run / 'report.html'}")
    print(f"model for transformers: {exported if forms else explain_no_source()}", flush=True)


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, DemoOptions, _demo)


if __name__ == "__main__":
    run_as_script(main)
