"""Base of methods that mask single weights of matrices, by values that they compare."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import ClassVar, Final, NamedTuple

from torch import Tensor

from clozeline.errors import ConfigurationError
from clozeline.extensions.compression.pruning._pruning import Pruning, PruningContext
from clozeline.extensions.compression.selection import Scope, find_matrices
from clozeline.model.build import Model
from clozeline.model.configuration.capabilities import (
    EVALUATED_WEIGHTS,
    EXACT_WEIGHTS,
    STATES_ON_DEVICE,
    TRAINED_BODY,
)
from clozeline.model.parameters.freezing import match_parameters
from clozeline.model.parameters.sharding import full_shape

MASK: Final = "mask"
"""State that is 1 at weights that stay, and 0 at pruned ones."""


class MaskTarget(NamedTuple):
    """Which weights to mask after a step: a share of the lowest values, or up to a threshold."""

    share: float = 0.0
    scope: Scope = "local"
    threshold: float | None = None
    """mask weights whose values are not above it"""


class MaskedWeights(Pruning):
    """A method that masks single weights: they, their gradients and optimizer states are 0.

    Biases, norms, embeddings and heads are never masked. Weights and states are 1-D tensors as the
    optimizer has them: parts of one or several parameters, on one rank.
    """

    keys = frozenset({MASK})
    needs: ClassVar = {EXACT_WEIGHTS, TRAINED_BODY, EVALUATED_WEIGHTS, STATES_ON_DEVICE}
    can_unmask: ClassVar[bool] = False
    """Whether a masked weight may return. If not, masks only grow, and zeros of `model.init_from`
    stay."""

    def describe(self, model: Model, horizon: int) -> str:
        sizes = self.sizes_of(model)
        return (
            f"prune      {sum(sizes.values()):,} weights in {len(sizes)} matrices, "
            f"{self.describe_plan(horizon)}"
        )

    @abstractmethod
    def describe_plan(self, horizon: int) -> str:
        """Return a description of when how many weights are pruned.

        Raises:
            ConfigurationError: the plan goes beyond the last step, `horizon`.
        """

    @abstractmethod
    def mask_target(self, step: int) -> MaskTarget | None:
        """Return which weights to mask after a step; None: the masks stay."""

    def compared_values(self, weights: Tensor, states: Mapping[str, Tensor]) -> Tensor:
        """Return the values that decide, from the weights of a matrix and their states."""
        return weights.abs()

    def attach(self, context: PruningContext) -> None:
        super().attach(context)
        self.describe_plan(context.horizon)
        self.sizes = self.sizes_of(context.model)
        """number of weights of each matrix that is pruned"""

    def new_states(self, weights: Tensor, *, masked: bool) -> dict[str, Tensor]:
        """Return the states of weights before the first step; `masked`: some can be masked."""
        return {MASK: weights.new_ones(weights.shape)} if masked else {}

    def before_update(self, weights: Tensor, states: Mapping[str, Tensor]) -> None:
        """Change weights or their gradient before the update."""
        weights.grad.mul_(states[MASK])  # type: ignore[union-attr]

    def after_update(self, weights: Tensor, states: Mapping[str, Tensor]) -> None:
        """Read weights after an update, before masked weights become 0 again."""

    def after_masking(
        self, weights: Tensor, states: Mapping[str, Tensor], moments: Iterable[Tensor]
    ) -> None:
        """Change weights and the optimizer's states, `moments`, after masks have changed."""

    def sizes_of(self, model: Model) -> dict[str, int]:
        """Return the number of weights of each trainable matrix that is pruned, in model order.

        Raises:
            ConfigurationError: there are none, or a pattern in the option `parameters` matches
                nothing.
        """
        named = dict(model.named_parameters())
        shapes = {name: full_shape(parameter) for name, parameter in named.items()}
        matrices = find_matrices(shapes, "prune", model.config.family)
        trainable = [name for name in matrices if named[name].requires_grad]
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
