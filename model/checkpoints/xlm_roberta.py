"""XLM-R (arXiv 1911.02116)."""

from clozeline.model.checkpoints.roberta import Roberta


class XlmRoberta(Roberta):
    """RoBERTa under another name, with RoBERTa's tensor names."""

    model_type = "xlm-roberta"
    stem = "XLMRoberta"
