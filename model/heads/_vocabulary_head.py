"""The base of heads that project hidden states onto the vocabulary."""

from torch import Tensor, nn

from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.heads._label_head import LabelHead
from clozeline.model.layers.activation import ACTIVATIONS
from clozeline.model.layers.norm import build_norm
from clozeline.model.layers.vocabulary import VocabularyProjection


class VocabularyHead(LabelHead):
    """A projection onto the vocabulary, after a linear map, an activation and a norm if `transformed`."""

    def __init__(
        self, config: ModelConfig, tokens: nn.Embedding, vocab_size: int, *, transformed: bool, biased: bool
    ) -> None:
        super().__init__()
        width = config.output_width if transformed else config.dim
        self.transform = nn.Linear(config.dim, width, bias=config.bias.head) if transformed else nn.Identity()
        self.act = ACTIVATIONS[config.activation] if transformed else nn.Identity()
        self.norm = build_norm(config, width) if transformed else nn.Identity()
        extra = width - config.embedding_width if transformed and config.tied else 0
        features = width - extra
        self.projection = VocabularyProjection(
            features,
            vocab_size,
            tokens,
            tied=config.tied,
            bias=biased,
            extra=extra,
            softcap=config.final_logit_softcapping,
        )

    def logits(self, hidden: Tensor) -> Tensor:
        return self.projection(self.norm(self.act(self.transform(hidden))))
