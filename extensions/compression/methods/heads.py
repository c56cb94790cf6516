"""Remove attention heads by the gradients of their gates (arXiv 1905.10650)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.extensions.compression.methods._method import Batch, Compressed, Method, score_parts
from clozeline.extensions.compression.selection import StructureOptions, choose_best, split_name
from clozeline.model.checkpoints.checkpoint import Checkpoint
from clozeline.model.layers.position import has_bias

_BODIES: Final = ("attention.body.", "cross.body.")
_LAST_AXIS: Final = ("out.weight", "segments")
"""Parameters with a head's features along the last axis."""
_OF_ALL_HEADS: Final = re.compile(r".*\.(out\.bias|(query|key)_norm\.(weight|bias))")
"""Parameters that all heads share."""


class HeadsMethod(Method):
    """Keep the most important heads of each attention, the same number in every layer.

    The importance of a head is the mean over rows of |dL / d gate|, where a gate of 1 multiplies
    its output; without calibration rows, it is the norm of its part of the output projection. Its
    queries, keys, values and columns of the output projection are removed; the output bias stays.
    `model.head_dim` then says the width of a head.

    Query heads that share keys and values are removed together with them.
    """

    options: Options
    published_result = (
        "20 % to 40 % of heads go without a noticeable loss; half of them: up to 17.5 % faster "
        "(1905.10650)"
    )
    calibrates = True

    @config_class
    class Options(StructureOptions):
        """Number of heads that each attention keeps, or share that it loses."""

    def compress(self, checkpoint: Checkpoint, batches: Sequence[Batch]) -> Compressed:
        config = checkpoint.config
        if has_bias(config):
            raise ConfigurationError(
                "method=heads: each head has its own bias with position.kind "
                f"{config.position.kind}, so no layer can lose heads alone; use method=rows or "
                "method=layers"
            )

        if config.qk_norm == "all":
            raise ConfigurationError(
                "method=heads: with model.qk_norm all, the statistics of queries and keys span all "
                "heads, so no head can be removed alone; use method=rows or method=layers"
            )

        outputs = [
            path
            for name in checkpoint.tensors
            if (path := _find_output(name)) and name == f"{path}.weight"
        ]
        if not outputs:
            raise ConfigurationError(
                f"method=heads: the family {config.family} has no attention heads to remove"
            )

        self.check_layers_unshared(config)
        # query heads of the first stack and of a decoder, in groups that share a key and value head
        query_heads = {
            False: config.attention_heads,
            True: config.decoder_attention_heads or config.attention_heads,
        }
        sizes = {
            decoder: heads // (config.kv_heads or heads) for decoder, heads in query_heads.items()
        }
        numbers = {
            decoder: self.options.count_kept(heads, "heads", sizes[decoder])
            for decoder, heads in query_heads.items()
        }
        in_decoder = {path: ".decoder." in path for path in outputs}
        groups = {
            path: query_heads[decoder] // sizes[decoder] for path, decoder in in_decoder.items()
        }

        def norms(path: str) -> Tensor:
            columns = checkpoint.tensors[f"{path}.weight"].double().square().sum(0)
            return columns.view(groups[path], -1).sum(1).sqrt()

        # the groups of each attention that stay
        scores, how = score_parts(checkpoint, groups, batches, norms)
        chosen = {
            path: choose_best(scores[path], numbers[decoder] // sizes[decoder])
            for path, decoder in in_decoder.items()
        }
        key_value_heads = None if config.kv_heads is None else len(chosen[outputs[0]])
        decoder_heads = None if config.decoder_attention_heads is None else numbers[True]
        changes = {
            "attention_heads": numbers[False],
            "head_dim": config.head_width,
            "kv_heads": key_value_heads,
        }

        def part(name: str) -> Tensor:
            if (path := _find_output(name)) is None or _OF_ALL_HEADS.fullmatch(name):
                return checkpoint.tensors[name]
            # the features of the groups that stay
            axis = -1 if name.endswith(_LAST_AXIS) else 0
            width = checkpoint.tensors[name].shape[axis] // groups[path]
            features = (chosen[path][:, None] * width + torch.arange(width)).flatten()
            return checkpoint.tensors[name].index_select(axis, features)

        lines = [
            f"heads: {numbers[False]} of {config.attention_heads} stay in each layer, chosen by "
            f"{how}"
        ]
        lines += [f"  {path}: {', '.join(map(str, chosen[path].tolist()))}" for path in outputs]
        smaller = self.build_smaller(
            checkpoint, part, decoder_attention_heads=decoder_heads, **changes
        )
        return Compressed(smaller, tuple(lines))


def _find_output(name: str) -> str | None:
    """Return the output projection of the attention that has this parameter, or None."""
    parts = split_name(name)
    if parts is None or not parts[2].startswith(_BODIES):
        return None
    body = next(body for body in _BODIES if parts[2].startswith(body))
    return f"{parts[0]}{parts[1]}.{body}out"
