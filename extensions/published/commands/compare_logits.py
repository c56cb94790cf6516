"""Compare the logits of two models: `clozeline compare-logits mine/run hf [--theirs]`.

Each is a training run, a folder that import_model wrote, or a transformers folder. With --theirs,
transformers runs its own folders; it must be installed.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import torch
from torch import Tensor

from clozeline.command_line import Positional
from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.extensions.published.export_plan import exported_form
from clozeline.extensions.published.verification import (
    Logits,
    import_transformers,
    logits_of,
    refusals_of,
)
from clozeline.tools.command import ModelPath, run_as_script, run_tool
from clozeline.train.checkpoint.trained_model import TrainedModel

_ROWS: Final = 4
_LENGTH: Final = 12
"""Rows of random ids, and ids of a row."""
_MAX_DIFFERENCE: Final = 1e-4


@config_class
class CompareLogitsOptions:
    """Two models."""

    first: Annotated[ModelPath, Positional(0, "DIR_A")]
    """run, or folder with a model"""
    second: Annotated[ModelPath, Positional(1, "DIR_B")]
    """the model to compare it with"""
    theirs: bool = False
    """run folders for transformers by transformers"""


def largest_difference(first: Logits, second: Logits, ids: Tensor) -> float:
    """Return the largest absolute difference of two models' logits on rows of ids [B, T]."""
    with torch.no_grad():
        sides = first(ids), second(ids)
    widths = [[scores.shape[-1] for scores in side] for side in sides]
    if widths[0] != widths[1]:
        raise ConfigurationError(
            f"the models' heads have {widths[0]} and {widths[1]} scores: expected as many; exports "
            "drop the rows that pad a vocabulary, so compare two exports, or the run with its "
            "export"
        )

    if not widths[0]:
        raise ConfigurationError(
            "the models have no heads with scores: name a class with a head under architectures"
        )

    return max(float((a - b).abs().max()) for a, b in zip(*sides, strict=True))


def _run_ours(trained: TrainedModel) -> tuple[Logits, int]:
    """Return a function that computes a model's logits with our code.

    Also the size of its vocabulary.
    """
    checkpoint = exported_form(trained)
    return logits_of(checkpoint), checkpoint.vocab_size


def _run_transformers(folder: Path) -> tuple[Logits, int]:
    """Return a function that computes a model's logits with transformers.

    It reads local files only, and runs no remote code.
    """
    transformers = import_transformers("--theirs")

    with refusals_of(folder):
        config = transformers.AutoConfig.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        architecture = getattr(transformers, (config.architectures or ["none"])[0], None)
        if architecture is None:
            raise ConfigurationError(
                f"{folder}: config.json names no class of transformers under architectures"
            )
        model: Any = architecture.from_pretrained(
            folder, local_files_only=True, dtype=torch.float32
        ).eval()
        rows = int(config.get_text_config().vocab_size)

    def logits(ids: Tensor) -> list[Tensor]:
        more = {"decoder_input_ids": ids} if config.is_encoder_decoder else {}
        with refusals_of(folder):
            scores = model(input_ids=ids, **more).items()
        return [value for name, value in scores if name.endswith("logits")]

    return logits, rows


def _compare(options: CompareLogitsOptions) -> int:
    """Print the difference; return 65 where the models differ."""
    sides = [
        _run_transformers(folder)
        if options.theirs and (folder / "config.json").is_file()
        else _run_ours(TrainedModel.open(folder, quantized=False))
        for folder in (options.first, options.second)
    ]
    # random ids that both vocabularies have
    size = min(size for _, size in sides)
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(min(4, size - 1), size, (_ROWS, _LENGTH), generator=draw)
    difference = largest_difference(sides[0][0], sides[1][0], ids)
    print(f"random ids, {_ROWS} rows of {_LENGTH}: largest difference of logits {difference:.3g}")
    return 0 if difference <= _MAX_DIFFERENCE else 65


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, CompareLogitsOptions, _compare, prints=True)


if __name__ == "__main__":
    run_as_script(main)
