"""Run a model over calibration rows, for the gradients of gates."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from clozeline.errors import ConfigurationError
from clozeline.model.build import Model
from clozeline.model.checkpoints import Checkpoint
from clozeline.model.compression._method import Batch


def build_sharing(checkpoint: Checkpoint) -> Model:
    """Build the model with the tensors of a checkpoint as its parameters, in evaluation mode.

    The weights are in memory once; do not change them in place. Half-precision weights are converted to fp32.

    Raises:
        ConfigurationError: the checkpoint holds the body alone, or the family reads characters, which it does not hold.
    """
    if checkpoint.absent:
        raise ConfigurationError(
            f"the model has no weights of its head: {checkpoint.absent[0]} is not there; fine-tune it first"
        )
    with torch.device("meta"):
        model = Model(checkpoint.config, checkpoint.vocab_size)
    if model.family.reads_characters:
        raise ConfigurationError(
            f"the family {checkpoint.config.family} reads the characters of tokens, which a model folder does not hold"
        )
    # a tied parameter has several owners, and one name
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    parameters: dict[str, nn.Parameter] = {}
    for module in model.modules():
        for key, parameter in list(module.named_parameters(recurse=False, remove_duplicate=False)):
            name = names[id(parameter)]
            if name not in parameters:
                tensor = checkpoint.tensors[name]
                wide = tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()
                parameters[name] = nn.Parameter(wide, requires_grad=False)
            setattr(module, key, parameters[name])
    return model.eval()


def gate_importance(model: Model, gates: Mapping[str, int], batches: Sequence[Batch]) -> dict[str, Tensor]:
    """Return the mean over rows of |dL / d gate| for gates of 1 on the inputs of linear maps (arXiv 1905.10650).

    L is the summed loss of a row, and a gate multiplies consecutive features of all positions of that row.

    Args:
        model: in evaluation mode.
        gates: by path of a linear map, the number of its gates; they share its input features equally.
        batches: rows with labels.

    Returns:
        fp64 [gates] for each path.
    """
    sums = {path: torch.zeros(count, dtype=torch.float64) for path, count in gates.items()}
    rows, opened = 0, list[tuple[str, Tensor]]()

    def multiply(path: str, x: Tensor) -> Tensor:
        # x [B, T, features]; a gate for each row, so that one backward pass gives the gradients of all rows
        gate = x.new_ones(len(x), gates[path], requires_grad=True)
        opened.append((path, gate))
        return x * gate.repeat_interleave(x.shape[-1] // gates[path], dim=1)[:, None]

    with _hooks(model, gates, multiply):
        for batch in batches:
            opened.clear()
            losses = model(batch)
            total = torch.stack([losses[name].total * weight for name, weight in model.config.head_weights.items()])
            gradients = torch.autograd.grad(total.sum(), [gate for _, gate in opened], allow_unused=True)
            for (path, _), gradient in zip(opened, gradients, strict=True):
                if gradient is not None:
                    sums[path] += gradient.double().abs().sum(0)
            rows += int((batch["row_weight"] != 0).sum())
    return {path: total / max(rows, 1) for path, total in sums.items()}


def score_parts(
    checkpoint: Checkpoint, gates: Mapping[str, int], batches: Sequence[Batch], by_weights: Callable[[str], Tensor]
) -> tuple[dict[str, Tensor], str]:
    """Return the importance of the parts behind gates, by path, and what it comes from.

    Without calibration rows it is `by_weights` of each path, else that of `gate_importance`.
    """
    if not batches:
        return {path: by_weights(path) for path in gates}, "weights"
    rows = sum(len(batch["row_weight"]) for batch in batches)
    return gate_importance(build_sharing(checkpoint), gates, batches), f"|dL/d gate| over {rows} rows"


@contextmanager
def _hooks(model: Model, paths: Collection[str], call: Callable[[str, Tensor], Tensor | None]) -> Iterator[None]:
    """Call a function with path and input of linear maps before each call of theirs."""
    with ExitStack() as hooks:
        for path in paths:
            hook = partial(lambda path, _, inputs: call(path, inputs[0]), path)
            hooks.callback(model.get_submodule(path).register_forward_pre_hook(hook).remove)
        yield
