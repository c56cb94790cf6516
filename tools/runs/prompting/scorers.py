"""Choose how to prompt the model of a run, according to its training."""

from pathlib import Path
from typing import Literal, TypeAlias, get_args

from clozeline.errors import ConfigurationError
from clozeline.model.scoring.batches import TOKENS
from clozeline.pipeline.shards.manifest import ObjectiveFacts
from clozeline.tools.runs.inference.text_likelihoods import first_token, prepared_scores
from clozeline.tools.runs.prompting.candidates import Answer, Causal, Cloze, Masks, Scorer
from clozeline.train.startup.open_run import Run

Mode: TypeAlias = Literal["cloze", "causal", "answer"]
"""cloze: a masked model fills the word in; causal: a decoder continues with it; answer: an encoder-decoder outputs
it"""


def prepared_modes(objective: ObjectiveFacts) -> tuple[Mode, ...]:
    """Return the modes that training with an objective prepares."""
    if objective.architecture == "encoder_decoder":
        return ("answer",) if "lm" in objective.heads else ()
    kinds = prepared_scores(objective)
    if "causal" in kinds:
        return ("causal",)
    return ("cloze",) if kinds else ()


def open_scorer(
    run: Path, trained: Run, mode: Mode | None, masks: Masks = "left_to_right", tokens: int = TOKENS
) -> tuple[Scorer, Mode]:
    """Return a scorer of words and its mode, by default the first that the training prepared."""
    objectives = trained.objectives
    ready = {kind: objective for objective in reversed(objectives) for kind in prepared_modes(objective)}
    known = [kind for kind in get_args(Mode) if kind in ready]
    if not known:
        labels = ", ".join(dict.fromkeys(objective.label for objective in objectives))
        raise ConfigurationError(
            f"{run}: was trained on {labels}, after which a prompt has no answer: expected a run of a masked, causal "
            "or text-to-text objective"
        )
    chosen: Mode = mode or known[0]
    if chosen not in ready:
        raise ConfigurationError(
            f"mode={chosen}: the run was not trained for it, and its scores would be meaningless; it can be asked by "
            f"{', '.join(known)}"
        )
    objective, model, tokenizer = ready[chosen], trained.model, trained.tokenizer
    if chosen == "causal":
        return Causal(model, tokenizer, first_token(trained, objective), tokens), chosen
    if chosen == "answer":
        return Answer(model, tokenizer, objective, tokens), chosen
    previous = objective.frame.predict_from == "previous"
    return Cloze(model, tokenizer, masks, previous=previous, tokens=tokens), chosen
