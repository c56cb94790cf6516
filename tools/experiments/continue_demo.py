"""Continue a published model on other pages: `make continue`, or `clozeline continue-demo --output runs/continue`.

Transformers makes a small BERT with its tokenizer. The demo makes shards of Python's documentation with that
tokenizer, continues pretraining, exports the model, and compares the masks that transformers and the trained run fill
in. Each step is a command, printed before it runs. A second call skips the finished steps.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from clozeline.tools.experiments.demo import RECIPE, SENTENCES, TRAINING
from clozeline.tools.experiments.multirun.demo_chain import heldout_result, run_chain, train, write_pages
from clozeline.tools.experiments.multirun.exported_guesses import compare_with_transformers, export_run
from clozeline.tools.experiments.multirun.runner import run_step
from clozeline.tools.experiments.multirun.small_bert import publish_small_bert

_OBJECTIVE: Final = "[{name: masked_lm, max_length: 128, variants: 3}]"
_OPTIMIZER: Final = "{name: adamw, learning_rate: 1e-3, betas: [0.9, 0.98], eps: 1e-6, weight_decay: 0.01}"
_STEPS: Final = 400


def _continue(output: Path, steps: int | None) -> None:
    published, shards, run, exported = (output / name for name in ("published", "shards", "train", "exported"))
    warc = output / "pydoc.warc.gz"
    seconds = {"pages": write_pages(warc)}
    if not (published / "config.json").exists():
        publish_small_bert(published)
        print(f"\n{published}: a small BERT and its tokenizer, made by transformers")
    data = [f"input={warc}", f"output={shards}", "executor.tasks=2"]
    own_data = ["train_tokenizer=null", f"tokenizer.path={published}", f"corrupt={_OBJECTIVE}"]
    seconds["pipeline"] = run_step("clozeline", "pipeline", "--config", RECIPE, *data, *own_data)
    model = ["model=null", f"model.init_from={published}", "model.dropout={}", f"optimizer={_OPTIMIZER}"]
    seconds["train"] = train(run, shards, TRAINING, f"steps={_STEPS}", *model, steps=steps)
    heldout = heldout_result(run)
    print(f"\nheld-out loss {heldout['loss']:.4f} nats, unigram entropy {heldout['unigram_entropy']:.4f}")
    seconds["export"] = export_run(run, exported)
    run_step("clozeline", "compare-logits", run, exported, "--theirs")
    print()
    print(compare_with_transformers(run, exported, SENTENCES))
    print("seconds: " + ", ".join(f"{name} {value:.0f}" for name, value in seconds.items()), flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    return run_chain("continue", __doc__, _continue, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
