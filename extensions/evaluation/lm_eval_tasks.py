"""Score a run on tasks of lm-eval without an export.

EleutherAI's harness runs in this process: `suite=lm_eval tasks=[...]`.

The harness is an optional dependency: `pip install clozeline[lm-eval]`.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch

from clozeline.errors import ConfigurationError
from clozeline.model.generation.decoding import Decoding
from clozeline.model.generation.generate import generate
from clozeline.model.scoring.batches import batch_tensors, find_head, group_by_length
from clozeline.model.scoring.masked import pseudo_log_likelihoods
from clozeline.pipeline.text.normal_form import NormalForm, normalize_field
from clozeline.tools.runs.inference.generated_text import find_end_ids, text_before
from clozeline.tools.runs.inference.text_likelihoods import open_scorer, ready_scores
from clozeline.train.checkpoint.trained_model import TrainedModel

_BATCH_TOKENS: Final = 1 << 13
"""Most tokens in a batch: the vocabulary scores of all its tokens are in memory at once."""
_NEW_TOKENS: Final = 256
"""Most new tokens of a task that names no maximum, as in the harness."""


class RunScores:
    """The requests of the harness, answered by a run's model.

    A decoder scores continuations left to right, as the harness does with an exported model. A
    masked LM has pseudo-log-likelihoods (arXiv 1910.14659): each token of the continuation is
    masked alone. They have no most probable continuation, so that none counts as greedy, and no
    text is generated.
    """

    def __init__(self, trained: TrainedModel, form: NormalForm = "prose") -> None:
        _, self.kind = open_scorer(trained, None)
        architecture = trained.model.config.architecture
        if self.kind not in ("causal", "pll") or (
            self.kind == "causal" and architecture != "decoder"
        ):
            raise ConfigurationError(
                f"{trained.folder}: suite=lm_eval: expected a causal or a masked LM, got score "
                f"{self.kind}"
            )

        self._form = form
        self.trained = trained
        self.causal = self.kind == "causal"
        rows = ready_scores(trained.objectives)[self.kind]
        vocabulary = trained.tokenizer.vocabulary
        self.prefix = [*rows.before_text] or [vocabulary.id_of("eos", "suite=lm_eval")]
        self.head = rows.head if self.causal else ()
        """special tokens that the exported tokenizer puts before a text"""
        self.length = trained.max_length

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text in a stored form, without special tokens."""
        stored = normalize_field(self._form, text)
        ids: list[int] = self.trained.tokenizer.encode([stored])[0].ids.tolist()
        return ids

    def encode_pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """Return the tokens of both.

        Blanks at the border belong to the continuation, as in the harness.
        """
        if not context:
            return (self.prefix if self.causal else []), self.encode(continuation)
        stripped = context.rstrip()
        entire = self.encode(context + continuation)
        before = self.encode(stripped)
        return [*self.head, *before], entire[len(before) :]

    def score(self, pairs: Sequence[tuple[list[int], list[int]]]) -> list[tuple[float, bool]]:
        """Return the log-probability of each continuation after its context, in nats.

        Also whether it is the greedy one.
        """
        return self._score_causal(pairs) if self.causal else self._score_masked(pairs)

    def _score_causal(
        self, pairs: Sequence[tuple[list[int], list[int]]]
    ) -> list[tuple[float, bool]]:
        model = self.trained.model
        name, _ = find_head(model, "lm", "suite=lm_eval")
        device = model.family.device
        rows = [[*context, *continuation][-(self.length + 1) :] for context, continuation in pairs]
        found: list[tuple[float, bool]] = [(0.0, True)] * len(pairs)

        for group in group_by_length([len(row) - 1 for row in rows], _BATCH_TOKENS):
            with torch.no_grad():
                scores = model.logits(
                    batch_tensors([rows[number][:-1] for number in group], device)
                )[name]

            for score, number in zip(scores, group, strict=True):
                row = rows[number]
                count = min(len(pairs[number][1]), len(rows[number]) - 1)
                targets = torch.tensor(row[len(row) - count :], device=device)
                logs = (
                    score[len(row) - 1 - count : len(row) - 1, : model.vocab_size]
                    .float()
                    .log_softmax(-1)
                )

                greedy = bool((logs.argmax(-1) == targets).all())
                found[number] = (
                    float(logs.gather(1, targets[:, None]).sum(dtype=torch.float64)),
                    greedy,
                )

        return found

    def _score_masked(
        self, pairs: Sequence[tuple[list[int], list[int]]]
    ) -> list[tuple[float, bool]]:
        cls, sep, mask = self.trained.masked_row_ids("suite=lm_eval")
        rows = []
        positions = []
        for context, continuation in pairs:
            ids = [*context, *continuation][-(self.length - 2) :]
            rows.append([cls, *ids, sep])
            positions.append(range(1 + len(ids) - min(len(continuation), len(ids)), 1 + len(ids)))
        scored = pseudo_log_likelihoods(self.trained.model, rows, positions, mask)
        return [(float(tokens.sum()), False) for tokens in scored]

    def score_text(self, text: str) -> float:
        """Return the log-probability of a text, in windows without overlap.

        The last one has the longest context.
        """
        from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

        size = self.length if self.causal else self.length - 2
        ids = [*self.head, *self.encode(text)]
        windows = get_rolling_token_windows(ids, self.prefix[0], size, 1)
        pairs = [make_disjoint_window(window) for window in windows]
        if not self.causal and pairs:  # a row of a masked LM has its first special token already
            pairs[0] = ([], pairs[0][1])
        return sum(total for total, _ in self.score(pairs))

    def continue_text(self, context: str, options: Mapping[str, Any]) -> str:
        """Return a greedy continuation, which ends before the first stop string.

        Raises:
            ConfigurationError: the run is a masked LM, or the task samples.
        """
        if not self.causal:
            raise ConfigurationError(
                "suite=lm_eval: a task generates text, which a masked LM does not: choose others"
            )

        if options.get("do_sample") and options.get("temperature", 1.0) != 0:
            raise ConfigurationError(
                "suite=lm_eval: expected greedy generation, a task samples: set do_sample: false"
            )

        stop = options.get("until") or []
        stop = [text for text in ([stop] if isinstance(stop, str) else stop) if text]
        limit = next(
            (int(options[key]) for key in ("max_gen_toks", "max_new_tokens") if key in options),
            _NEW_TOKENS,
        )
        if limit >= self.length:
            raise ConfigurationError(
                f"suite=lm_eval: the task asks for {limit} new tokens, the run reads "
                f"{self.length}: set max_gen_toks"
            )

        tokenizer = self.trained.tokenizer
        ids = [*self.head, *self.encode(context)][-(self.length - limit) :]
        (found,) = generate(
            self.trained.model,
            [ids or self.prefix],
            Decoding(max_tokens=limit),
            end_ids=find_end_ids(tokenizer),
            finishes=lambda new: any(each in tokenizer.decode_part(new) for each in stop),
        )

        text = tokenizer.decode_part(
            [token for token in found.ids if not tokenizer.vocabulary.special[token]]
        )
        return text_before(stop, text)


def task_scores(
    trained: TrainedModel, tasks: Sequence[str], folder: Path, form: NormalForm = "prose"
) -> dict[str, Any]:
    """Return the metrics of tasks whose files are in a folder, or of the harness itself.

    Raises:
        ConfigurationError: the harness is not installed, knows no such task, or the run has no
            scores of texts.
    """
    try:
        from lm_eval import simple_evaluate
        from lm_eval.api.model import LM
        from lm_eval.tasks import TaskManager
    except ImportError as error:
        raise ConfigurationError(f"suite=lm_eval: {error}: install clozeline[lm-eval]") from error

    scores = RunScores(trained, form)

    class HarnessModel(LM):  # type: ignore[misc]
        def loglikelihood(self, requests: Sequence[Any]) -> list[tuple[float, bool]]:
            return scores.score([scores.encode_pair(*request.args) for request in requests])

        def loglikelihood_rolling(self, requests: Sequence[Any]) -> list[float]:
            return [scores.score_text(*request.args) for request in requests]

        def generate_until(self, requests: Sequence[Any]) -> list[str]:
            return [scores.continue_text(*request.args) for request in requests]

    manager = TaskManager(include_path=str(folder), include_defaults=False)
    if not {*tasks} <= {*manager.all_tasks}:  # listing the harness's tasks takes seconds
        manager = TaskManager(include_path=str(folder))
    if unknown := sorted({*tasks} - {*manager.all_tasks}):
        raise ConfigurationError(
            f"tasks: {', '.join(unknown)}: in no file of {folder}, and the harness has none"
        )

    found = simple_evaluate(
        HarnessModel(), tasks=[*tasks], task_manager=manager, bootstrap_iters=0, log_samples=False
    )
    return {
        "suite": "lm_eval",
        "score": scores.kind,
        "tasks": found["results"],
        "items": found["n-samples"],
    }


def task_lines(scores: Mapping[str, Any]) -> Iterator[str]:
    """Yield readable lines."""
    yield f"lm-eval, score {scores['score']}, step {scores['step']:,}"
    for task, metrics in scores["tasks"].items():
        values = {
            key.removesuffix(",none"): value
            for key, value in metrics.items()
            if isinstance(value, float)
        }
        yield f"  {task}: " + ", ".join(f"{key} {value:.4f}" for key, value in values.items())
