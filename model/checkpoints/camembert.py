"""CamemBERT (arXiv 1911.03894)."""

from clozeline.model.checkpoints.roberta import Roberta


class Camembert(Roberta):
    """RoBERTa under another name, with RoBERTa's tensor names."""

    model_type = "camembert"
    stem = "Camembert"
