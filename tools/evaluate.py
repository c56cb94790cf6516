"""Score a fine-tuned run: `python tools/evaluate.py RUN [split=dev] [task=FOLDER] [step=N] [output=FILE] [--json]`.

The metrics are those of the task, over all rows of the split at once, beside the baselines that know nothing of the
model: the most frequent answer, a linear model on bags of words, and for pairs one on their overlap. A score below a
baseline is printed as such. Several ranks share the rows, and the JSON is the same as from one process.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from pydantic.dataclasses import dataclass

from pipeline.config import STRICT, validate
from pipeline.configuration.overrides import override
from pipeline.files import publish
from tools.evaluation.answer_scores import read_spans
from tools.evaluation.predictions import Read, predict_share, set_rows
from tools.evaluation.scores import lines_of, scores_of, text_of
from tools.evaluation.tag_scores import read_tags
from tools.evaluation.task_run import open_task_run
from tools.lib.command import Arguments, run_tool, some_path
from train.distributed import World, describe_environment, start

__all__ = ["EvaluateOptions", "evaluate_run", "main"]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class EvaluateOptions:
    """The split to score, and what of the run."""

    split: str = "dev"
    """folder of the split beside the training set: dev, test, dev_matched"""
    task: Path | None = None
    """folder of the task's sets; default: that of the run's training set"""
    step: Annotated[int, Field(ge=1)] | None = None
    """step of the checkpoint; default: the newest"""
    output: Path | None = None
    """file for the JSON"""


def evaluate_run(run: Path, options: EvaluateOptions, world: World | None = None) -> str:
    """Return the scores of a run as JSON text, the same on every rank.

    Args:
        run: the run directory.
        options: what is scored.
        world: the ranks that share the work; None: this process alone.

    Raises:
        ClozelineError: the run and the split do not go together, or one of them is damaged.
    """
    opened = open_task_run(run, options.split, options.task, options.step)
    rows = set_rows(opened.shards)
    rank, size = (0, 1) if world is None else (world.rank, world.size)
    reads: dict[str, Read] = {"tagging": partial(read_tags, facts=opened.facts), "span": read_spans}
    share = predict_share(
        opened.trained.model, opened.shards, rows, opened.head, rank, size, reads.get(opened.facts.head)
    )
    shares = [share] if world is None else world.gather(share)
    text = text_of(scores_of(opened, rows, shares)) if rank == 0 else ""
    return text if world is None else world.gather(text)[0]


class _Words(Arguments):
    """Arguments whose `key=value` words may stand before and after options."""

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> argparse.Namespace:
        """Return the options."""
        options: argparse.Namespace = self.parse_intermixed_args(args, namespace)
        return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = _Words(__doc__)
    parser.add_argument("run", type=some_path, metavar="RUN", help="a run that was fine-tuned on a task")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="split=dev, task=FOLDER, step=N, output=FILE")
    parser.add_argument("--json", action="store_true", help="print the JSON alone")
    parser.add_argument("--local_rank", "--local-rank", type=int, help=argparse.SUPPRESS)

    def action(options: argparse.Namespace) -> int:
        plain = override(EvaluateOptions, {}, options.overrides, "command line")
        chosen: EvaluateOptions = validate(EvaluateOptions, plain, "command line")
        _, size = describe_environment(os.environ)
        world = start() if size > 1 else None
        text = evaluate_run(options.run, chosen, world)
        if world is None or world.rank == 0:
            _publish(text, chosen.output, alone=options.json)
        if world is not None:
            world.shutdown()
        return 0

    return run_tool(parser, arguments, action)


def _publish(text: str, output: Path | None, *, alone: bool) -> None:
    if output is not None:
        with publish(output) as temporary:
            temporary.write_text(text, encoding="utf-8")
    sys.stdout.write(text if alone else "".join(f"{line}\n" for line in lines_of(json.loads(text))))


if __name__ == "__main__":
    raise SystemExit(main())
