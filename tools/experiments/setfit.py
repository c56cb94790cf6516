"""Train a classifier from a few labeled texts per class: `clozeline setfit BODY train=FILE dev=FILE output=DIR`.

SetFit (arXiv 2209.11055) has two steps. First the body is trained on pairs of the texts, so that texts of a class have
similar vectors. Then a linear classifier is fitted on the vectors of this body, which is frozen. Both files have the
columns `text` and `label`; `text=` and `label=` name others. Words that start with `body.` go to the first training,
those with `tasks.` to the sets of both steps, all others to the second: `body.steps=80`. The same command resumes.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field

from clozeline.configuration.config import config_class, config_file
from clozeline.configuration.home_folder import HOME_EXPANDED
from clozeline.errors import ConfigurationError
from clozeline.files import publish_text
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.tasks.readers import LabeledText
from clozeline.registry import choose
from clozeline.seeding import hash64
from clozeline.tools.command import IntermixedArguments, model_path, run_tool
from clozeline.tools.experiments.multirun import finetuning_scores
from clozeline.tools.experiments.multirun.runner import (
    Training,
    record_folder_facts,
    require_same_facts,
    run_step,
    start_training,
)
from clozeline.tools.settings import split_settings

_READERS: Final = "clozeline.pipeline.tasks.readers"


@config_class
class SetfitOptions:
    """Labeled files, and the pairs to draw from them."""

    train: Annotated[Path, HOME_EXPANDED]
    """file with the labeled texts, such as 8 per class: CSV, TSV, JSON lines or Parquet"""
    dev: Annotated[Path, HOME_EXPANDED]
    """file with the rows to score"""
    output: Annotated[Path, HOME_EXPANDED]
    """folder for the pairs, both runs and the scores"""
    text: str = "text"
    """column of the text"""
    label: str = "label"
    """column of the class"""
    iterations: Annotated[int, Field(ge=1)] = 20
    """positive and negative pairs that each text is drawn into as the first one; R in the paper"""
    seed: Annotated[int, Field(ge=0)] = 0
    """of the pairs and both trainings"""


def draw_pairs(texts: Sequence[tuple[str, int]], iterations: int, seed: int) -> Iterator[tuple[str, str, float]]:
    """Yield (text, other text, score): each text with another one of its class (1) and one of another class (0).

    Each iteration yields both pairs for every text; a text that is alone in its class has no positive pairs. A draw
    depends on the seed, the iteration and the text's index alone.

    Example:
        >>> [score for _, _, score in draw_pairs([("a", 0), ("b", 0), ("c", 1)], 1, seed=0)]
        [1.0, 0.0, 1.0, 0.0, 0.0]
    """
    members: dict[int, list[int]] = {}
    for index, (_, label) in enumerate(texts):
        members.setdefault(label, []).append(index)
    for iteration in range(iterations):
        for index, (text, label) in enumerate(texts):
            same = [other for other in members[label] if other != index]
            different = [other for other in range(len(texts)) if texts[other][1] != label]
            for score, others in ((1.0, same), (0.0, different)):
                if others:
                    draw = hash64("setfit", seed, iteration, index, int(score))
                    yield text, texts[others[draw % len(others)]][0], score


def setfit(body: Path, options: SetfitOptions, overrides: Sequence[str]) -> None:
    """Train the body on pairs, fit the classifier on its vectors, and score it on dev."""
    if not body.is_dir():
        raise ConfigurationError(f"{body}: no such folder; expected a run, or a folder with a model")
    output, seed = options.output.resolve(), options.seed
    columns = {"name": "labelled", "task": "setfit", "text": options.text, "label": options.label}
    texts = _read_texts(options.train, columns)
    facts: dict[str, Any] = {"body": str(body.resolve()), "overrides": list(overrides), "columns": columns}
    facts |= {"train": str(options.train.resolve()), "dev": str(options.dev.resolve())}
    facts |= {"iterations": options.iterations, "seed": seed}
    require_same_facts(output / "setfit.json", facts)
    of_stage = [word for word in overrides if word.startswith("tasks.")]
    of_body = [word.removeprefix("body.") for word in overrides if word.startswith("body.")]
    of_head = [word for word in overrides if not word.startswith(("tasks.", "body."))]

    def make_sets(recipe: str, files: str, folder: Path, *words: str) -> Path:
        stage: list[str | Path] = [
            "python",
            "-m",
            "clozeline.pipeline",
            "--config",
            config_file(recipe, "pipeline.yaml"),
        ]
        stage += [f"input={files}", f"tokenizer.path={body.resolve()}", f"output={folder}", *words, *of_stage]
        run_step(*stage, accelerator=None)
        return next(iter(sorted((folder / "tasks").glob("*/train"))))

    # the sets of both steps
    pairs = list(draw_pairs(texts, options.iterations, seed))
    lines = [json.dumps({"text": a, "text_pair": b, "score": score}, ensure_ascii=False) for a, b, score in pairs]
    publish_text(output / "pairs.jsonl", "".join(f"{line}\n" for line in lines))
    paired = make_sets("recipe:tasks/setfit", f"[{{path: {output / 'pairs.jsonl'}, source: train}}]", output / "pairs")
    files = f"[{{path: {options.train.resolve()}, source: train}}, {{path: {options.dev.resolve()}, source: dev}}]"
    labeled = make_sets("recipe:tasks/labels", files, output / "sets", f"tasks.reader={json.dumps(columns)}")
    record_folder_facts(output / "setfit.json", facts)
    # first step: the body; a finished run ends at once
    seeds, first = [f"seed={seed}", f"data.seed={seed}"], output / "body"
    words = [f"model.init_from={body.resolve()}", f"data.shards={paired}", f"output={first}", *seeds, *of_body]
    scores = finetuning_scores.scores_path(output, "dev", seed)
    config = config_file("recipe:tasks/setfit", "train.yaml")
    if not scores.exists():
        start_training(1, config, *words, accelerator=None)
    # second step: the classifier
    words = [f"model.init_from={first}", f"data.shards={labeled}", f"output={output / 'head'}", *seeds, *of_head]
    score = partial(finetuning_scores.score_run, output / "head", "dev")
    Training(config.with_name("train_head.yaml"), {scores: score}, overrides=words).collect()


def _read_texts(path: Path, columns: dict[str, str]) -> list[tuple[str, int]]:
    """Return the texts of a file with the index of their class, at least two of some class."""
    if not path.is_file():
        raise ConfigurationError(f"train: {path}: no such file; give one with labeled texts")
    chosen = choose(_READERS, columns)
    options = chosen.build(Limits()).complete_options({"train": path})
    reader = chosen.type(options, Limits())
    items = [item for item in reader.read(reader.open(path)) if isinstance(item, LabeledText)]
    texts = [(item.texts[0], item.label) for item in items if item.label is not None]
    counts = Counter(label for _, label in texts)
    if max(counts.values(), default=0) < 2:
        raise ConfigurationError(
            f"train: {path}: expected two texts of a class, got {len(texts)} texts of {len(counts)} classes: pairs "
            "compare texts of a class with those of others"
        )
    return texts


def main(arguments: Sequence[str] | None = None) -> int:
    parser = IntermixedArguments(__doc__)
    parser.add_argument("body", type=model_path, metavar="BODY", help="a run, or a folder with a model")
    own = "train, dev, output, text, label, iterations, seed"
    parser.add_argument("overrides", nargs="*", metavar="key=value", help=f"{own}, and keys of the trainings")

    def action(options: argparse.Namespace) -> None:
        chosen, overrides = split_settings(SetfitOptions, options.overrides)
        setfit(options.body, chosen, overrides)
        print(
            *finetuning_scores.table_lines([(str(chosen.output), finetuning_scores.read_scored(chosen.output))]),
            sep="\n",
        )

    return run_tool(parser, arguments, action)


if __name__ == "__main__":
    raise SystemExit(main())
