"""Continue a published model on a crawl: `make continue`, or `python tools/continue_demo.py --output runs/continue`.

Transformers makes a small BERT with its tokenizer. The chain makes shards of a crawl with that tokenizer, trains the
model further, exports it, and compares what transformers then fills into masks with what the trained run does. Each
step is a command that is printed before it runs. A second call skips the finished steps.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from pipeline.errors import IntegrityError
from tools.demo import RECIPE, SENTENCES, TRAINING
from tools.lib.chain import crawl, heldout_result, run_chain, run_step, train
from tools.lib.small_bert import publish_small_bert

__all__ = ["main", "same_guesses"]

_OBJECTIVE: Final = "[{name: masked_lm, max_length: 128, variants: 3}]"
_CLOSE: Final = 1e-4
"""Largest difference of two probabilities."""
_STEPS: Final = 400


def same_guesses(run: Path, exported: Path, texts: Sequence[str]) -> float:
    """Return the largest difference between the run's probabilities of its guesses and those of transformers.

    Args:
        run: training run.
        exported: folder that was made of it.
        texts: sentences with one `<mask>`.

    Raises:
        IntegrityError: the guesses are other tokens, or their probabilities differ by more than 1e-4.
    """
    os.environ["HF_HUB_OFFLINE"] = "1"  # read when transformers is imported
    from transformers import pipeline

    from tools.fill_mask import guesses, masked_text
    from tools.lib.trained_model import load_trained

    trained, fill = load_trained(run), pipeline("fill-mask", model=str(exported))
    mask = trained.tokenizer.piece(trained.tokenizer.vocabulary.id_of("mask", "fill-mask"))
    largest = 0.0
    for text in texts:
        ours = guesses(trained, *masked_text(trained, text), 5)
        theirs = fill(text.replace("<mask>", mask), top_k=5)
        print(f"{text}\n    ours:         {_listed((one.text, one.probability) for one in ours)}")
        print(f"    transformers: {_listed((one['token_str'], one['score']) for one in theirs)}")
        largest = max(
            largest, *(abs(one.probability - other["score"]) for one, other in zip(ours, theirs, strict=True))
        )
    if largest > _CLOSE:
        raise IntegrityError(f"{exported}: transformers' probabilities differ by {largest:.2g} from those of {run}")
    return largest


def _listed(pairs: Iterable[tuple[str, float]]) -> str:
    return "  ".join(f"{text.strip()} {probability:.4f}" for text, probability in pairs)


def _continue(output: Path, pages: int, steps: int | None) -> None:
    published, shards, run, exported = (output / name for name in ("published", "shards", "train", "exported"))
    seconds = {"crawl": crawl(output / "crawl", pages)}
    if not (published / "config.json").exists():
        publish_small_bert(published)
        print(f"\n{published}: a small BERT and its tokenizer, made by transformers")
    warc = output / "crawl" / "pydoc.warc.gz"
    data = [f"input={warc}", f"output={shards}", "executor.tasks=2"]
    own = ["train_tokenizer=null", f"tokenizer.path={published}", f"corrupt={_OBJECTIVE}"]
    seconds["pipeline"] = run_step("python", "-m", "pipeline", "--config", RECIPE, *data, *own)
    model = ["model=null", f"model.init_from={published}", "model.dropout={}", "optimizer.learning_rate=1e-3"]
    seconds["train"] = train(run, shards, TRAINING, *model, steps=steps or _STEPS)
    heldout = heldout_result(run)
    print(f"\nheld-out loss {heldout['loss']:.4f} nats, unigram entropy {heldout['unigram_entropy']:.4f}")
    if not (exported / "config.json").exists():
        seconds["export"] = run_step("python", "tools/export_model.py", run, exported)
    run_step("python", "tools/compare_logits.py", run, exported, "--theirs")
    print()
    largest = same_guesses(run, exported, SENTENCES)
    print(
        f"→ the largest difference of probabilities is {largest:.1g}: transformers has the model that was trained here"
    )
    print("seconds: " + ", ".join(f"{name} {value:.0f}" for name, value in seconds.items()), flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chain; return the exit code of the step that failed, or 0."""
    return run_chain("continue", __doc__, _continue, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
