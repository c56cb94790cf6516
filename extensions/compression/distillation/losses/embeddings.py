"""Distance between the outputs of the embeddings (TinyBERT, arXiv 1909.10351, equation 9)."""

from clozeline.extensions.compression.distillation.losses import LayerMapOptions, LossOptions
from clozeline.extensions.compression.distillation.losses.states import StatesLoss
from clozeline.model.configuration.model_config import ModelConfig


class EmbeddingsLoss(StatesLoss):
    """MSE(E_s W_e, E_t), averaged over real tokens and the teacher's width.

    Without W_e if the widths are equal.
    """

    Options = LossOptions

    def __init__(self, options: LossOptions, student: ModelConfig, teacher: ModelConfig) -> None:
        super().__init__(LayerMapOptions(weight=options.weight, layers={0: 0}), student, teacher)
