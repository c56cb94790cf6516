"""Methods that mask single weights of matrices: which ones, by values that are compared, and after which steps."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import ClassVar, Final, NamedTuple

from torch import Tensor

from clozeline.errors import ConfigurationError
from clozeline.model.build import Model
from clozeline.model.compression.pruning._pruning import Pruning, Training
from clozeline.model.compression.selection import Scope, find_matrices
from clozeline.model.configuration.conflicts import (
    ADAPTER,
    AVERAGES,
    AVERAGING_OPTIMIZER,
    OFFLOAD,
    QUANTIZATION,
    Conflict,
)
from clozeline.model.parameters.freezing import match_parameters
from clozeline.model.parameters.sharding import full_shape

MASK: Final = "mask"
"""State that is 1 at weights that stay, 0 at pruned ones."""

CONFLICTS: Final = {
    QUANTIZATION: "masks and rounding of one training were never tried together",
    ADAPTER: "the weights under an adapter are frozen",
    AVERAGES: "an average over steps is not 0 where the weights are",
    AVERAGING_OPTIMIZER: "its average over steps is not 0 where the weights are",
    OFFLOAD: "masks are applied on the device of the weights",
}


class Cut(NamedTuple):
    """The weights that are masked after a step: a share of the lowest values, or all that a threshold bounds."""

    share: float = 0.0
    scope: Scope = "local"
    threshold: float | None = None
    """weights of values that are not above it"""


class MaskedWeights(Pruning):
    """A method that masks single weights: they are 0 after each step, with their gradients and optimizer states.

    Biases, norms, embeddings and heads are never masked. Weights and states are 1-D tensors as the
    optimizer has them: parts of one or of several parameters, on one rank.
    """

    keys: ClassVar[frozenset[str]] = frozenset({MASK})
    conflicts: ClassVar[Mapping[Conflict, str]] = CONFLICTS
    returns: ClassVar[bool] = False
    """A masked weight may come back. Else masks only grow, and zeros of `model.init_from` stay."""

    def describe(self, model: Model, horizon: int) -> str:
        sizes = self.sizes_of(model)
        return (
            f"prune      {sum(sizes.values()):,} weights in {len(sizes)} matrices, "
            f"{self.describe_plan(horizon)}"
        )

    @abstractmethod
    def describe_plan(self, horizon: int) -> str:
        """Return when how many weights are pruned, for people; refuse a plan beyond the last step, `horizon`."""

    @abstractmethod
    def cut(self, step: int) -> Cut | None:
        """Return which weights are masked after a step; None: the masks stay."""

    def values(self, weights: Tensor, states: Mapping[str, Tensor]) -> Tensor:
        """Return the values that are compared, of the weights of a matrix and their states."""
        return weights.abs()

    def attach(self, training: Training) -> None:
        super().attach(training)
        self.describe_plan(training.horizon)
        self.sizes = self.sizes_of(training.model)
        """weights of each matrix that is pruned"""

    def new_states(self, weights: Tensor, *, masked: bool) -> dict[str, Tensor]:
        """Return the states of weights before the first step; some of their parameters are `masked`."""
        return {MASK: weights.new_ones(weights.shape)} if masked else {}

    def before_update(self, weights: Tensor, states: Mapping[str, Tensor]) -> None:
        """Change weights or their gradient before the update."""
        weights.grad.mul_(states[MASK])  # type: ignore[union-attr]

    def after_update(self, weights: Tensor, states: Mapping[str, Tensor]) -> None:
        """Follow an update, before masked weights become 0 again."""

    def after_cut(
        self, weights: Tensor, states: Mapping[str, Tensor], moments: Iterable[Tensor]
    ) -> None:
        """Change weights and the states of the optimizer, `moments`, when masks have changed."""

    def sizes_of(self, model: Model) -> dict[str, int]:
        """Return the trainable matrices that are pruned, in the order of the model, and their weights.

        Raises:
            ConfigurationError: there are none, or a pattern in the option `parameters` matches
                none.
        """
        named = dict(model.named_parameters())
        shapes = {name: full_shape(parameter) for name, parameter in named.items()}
        found = find_matrices(shapes, "prune", model.config.family)
        trainable = [name for name in found if named[name].requires_grad]
        if not trainable:
            raise ConfigurationError(
                "prune: nothing to prune: freeze leaves no linear map of a layer to train"
            )
        patterns = self.options.parameters
        chosen = {
            name
            for pattern in patterns
            for name in match_parameters("prune.parameters", pattern, trainable)
        }
        return {name: shapes[name].numel() for name in trainable if not patterns or name in chosen}
