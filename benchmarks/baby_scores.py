"""Score an exported folder on minimal pairs with transformers, and with n-grams for comparison.

    python -m benchmarks.baby_scores FOLDER PAIRS [--masked] [--harness 5] [--json FILE]

FOLDER holds an encoder that was trained on causal and masked rows (`clozeline export-model`). Its
weights are those of a Llama, which reads them left to right: FOLDER-causal, written here, loads in
`AutoModelForCausalLM` and in lm-eval.
"""

import json
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from benchmarks.harness import parser, write_json

import numpy as np
import torch
import transformers  # its classes are loaded at their first use
import yaml
from torch import Tensor

from clozeline.extensions.evaluation.minimal_pairs import Pair, compare_first, read_pairs
from clozeline.extensions.evaluation.perplexity import TokenNgrams

SMALLEST = None
Sums = np.ndarray[Any, np.dtype[np.float64]]
"""Log-probabilities of sentences."""
_WORD: Final = re.compile(r"\w+|[^\w\s]")
_TOKENS: Final = 1 << 13
"""Tokens of a batch."""
ORDERS: Final = {"unigram": 1, "bigram": 2, "5-gram": 5}
DEVICE: Final = "cuda" if torch.cuda.is_available() else "cpu"


def write_causal(folder: Path) -> Path:
    """Write the model once more as the class of transformers that reads its rows left to right.

    Return the folder.
    """
    causal = folder.with_name(f"{folder.name}-causal")
    if not (causal / "config.json").exists():
        keys = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        config = transformers.LlamaConfig(
            **{key: keys[key] for key in keys if key not in ("architectures", "model_type")}
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        config.bos_token_id = tokenizer.cls_token_id  # rows start with it
        tokenizer.bos_token = tokenizer.cls_token
        tokenizer.save_pretrained(causal)
        transformers.LlamaForCausalLM.from_pretrained(folder, config=config).save_pretrained(causal)

    return causal


def in_batches(rows: Sequence[Sequence[int]]) -> Iterator[tuple[list[int], Tensor]]:
    """Yield indices and ids of rows of equal length: no padding, no mask."""
    by_length = sorted(range(len(rows)), key=lambda index: len(rows[index]))
    for length, group in groupby(by_length, key=lambda index: len(rows[index])):
        indices = list(group)
        size = max(1, _TOKENS // length)
        for start in range(0, len(indices), size):
            some = indices[start : start + size]
            yield some, torch.tensor([rows[index] for index in some], device=DEVICE)


@torch.no_grad()
def causal_sums(folder: Path, texts: Sequence[str]) -> Sums:
    """Return the log-probability of each text after [CLS], without an end token."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).to(DEVICE)
    encoded = tokenizer(list(texts), add_special_tokens=False).input_ids
    sums = np.zeros(len(texts))
    for indices, ids in in_batches([[tokenizer.bos_token_id, *row] for row in encoded]):
        logits = model(input_ids=ids).logits[:, :-1]
        logs = logits.gather(2, ids[:, 1:, None])[..., 0] - logits.logsumexp(-1)
        sums[indices] = logs.sum(1, dtype=torch.float64).cpu().numpy()
    return sums


@torch.no_grad()
def masked_sums(folder: Path, texts: Sequence[str]) -> Sums:
    """Return the sum of the log probabilities of the tokens of each text.

    Each token is masked alone, and predicted at the position before.
    """
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder).to(DEVICE)
    encoded = tokenizer(list(texts)).input_ids  # [CLS] ... [SEP]
    cells = [(index, at) for index, row in enumerate(encoded) for at in range(1, len(row) - 1)]
    sums = np.zeros(len(texts))

    for indices, ids in in_batches([encoded[index] for index, _ in cells]):
        rows = torch.arange(len(indices))
        places = torch.tensor([cells[cell][1] for cell in indices], device=DEVICE)
        labels = ids[rows, places]
        ids[rows, places] = tokenizer.mask_token_id
        states = model.model(input_ids=ids).last_hidden_state[rows, places - 1]
        logs = model.lm_head(states).log_softmax(-1)[rows, labels]
        np.add.at(sums, [cells[cell][0] for cell in indices], logs.double().cpu().numpy())

    return sums


class Counts:
    """Interpolated Kneser-Ney n-grams of texts, by order; what the texts lack shares one id."""

    def __init__(self, documents: Iterable[Sequence[str]], orders: Iterable[int]) -> None:
        self._ids: dict[str, int] = {".": 0}
        ids = [
            np.array([self._ids.setdefault(word, len(self._ids)) for word in words])
            for words in documents
        ]
        self._models = {order: TokenNgrams(ids, order, len(self._ids) + 1) for order in orders}

    def sum(self, words: Sequence[str], order: int) -> float:
        """Return the log-probability of a sentence after a full stop."""
        ids = [0, *(self._ids.get(word, len(self._ids)) for word in words)]
        return float(self._models[order].log_probabilities(ids).sum())


def accuracies(pairs: Sequence[Pair], sums: Sums) -> dict[str, Any]:
    """Return the share of pairs whose good sentence has the higher sum, by paradigm, and its mean.

    A tie is wrong.
    """
    preferred, ties = compare_first(sums, pairs)
    found: dict[str, list[bool]] = {}
    for pair, right in zip(pairs, preferred, strict=True):
        found.setdefault(pair.paradigm, []).append(bool(right))
    paradigms = {name: float(np.mean(rights)) for name, rights in sorted(found.items())}
    return {
        "mean": float(np.mean([*paradigms.values()])),
        "ties": int(ties.sum()),
        "paradigms": paradigms,
    }


def sentences(pairs: Sequence[Pair]) -> list[str]:
    """Return the sentences of every pair in two forms.

    After a blank, as lm-eval reads them, and as they follow other sentences in a text.
    """
    return [f" {text}" for pair in pairs for text in pair.sentences]


def score_folder(folder: Path, pairs: Sequence[Pair], masked: bool) -> dict[str, Any]:
    """Return the accuracies of an exported folder by each score.

    `fused` is the mean of both (arXiv 2410.24159).
    """
    causal = causal_sums(write_causal(folder), sentences(pairs))
    sums = {"causal": causal}
    if masked:
        shifted = masked_sums(folder, sentences(pairs))
        sums |= {"masked": shifted, "fused": (causal + shifted) / 2}
    return {name: accuracies(pairs, of) for name, of in sums.items()}


def score_counts(texts: Sequence[str], pairs: Sequence[Pair], folder: Path) -> dict[str, Any]:
    """Return the accuracies of n-grams of words and of 5-grams of tokens.

    The tokens are those of an exported folder.
    """
    backend = transformers.AutoTokenizer.from_pretrained(folder).backend_tokenizer

    def cut_tokens(rows: Sequence[str]) -> Iterator[list[str]]:
        return (one.tokens for one in backend.encode_batch(list(rows), add_special_tokens=False))

    def cut_words(rows: Sequence[str]) -> Iterator[list[str]]:
        return map(_WORD.findall, rows)

    found = {}
    for cut, orders in ((cut_words, ORDERS), (cut_tokens, {"5-gram of tokens": 5})):
        counts = Counts(cut(texts), orders.values())
        rows = [*cut(sentences(pairs))]
        for name, order in orders.items():
            sums = np.array([counts.sum(row, order) for row in rows])
            found[name] = accuracies(pairs, sums)
    return found


def score_by_harness(causal: Path, pairs: Sequence[Pair], count: int) -> dict[str, float]:
    """Return the accuracies of lm-eval on the first paradigms.

    It is an extra: pip install clozeline[lm-eval].
    """
    from lm_eval import simple_evaluate
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    names = sorted({pair.paradigm for pair in pairs})[:count]

    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            lines = [{"sentences": pair.sentences} for pair in pairs if pair.paradigm == name]
            file = Path(folder) / f"{name}.jsonl"
            file.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
            task = {
                "task": name,
                "dataset_path": "json",
                "dataset_kwargs": {"data_files": {"test": str(file)}},
                "test_split": "test",
                "output_type": "multiple_choice",
                "doc_to_text": "",
                "doc_to_target": 0,
                "doc_to_choice": "{{sentences}}",
                "metric_list": [{"metric": "acc"}],
            }
            file.with_suffix(".yaml").write_text(yaml.safe_dump(task), encoding="utf-8")

        model = HFLM(pretrained=str(causal), device=DEVICE, dtype="float32", batch_size=32)
        manager = TaskManager(include_path=folder, include_defaults=False)
        found = simple_evaluate(
            model, tasks=names, task_manager=manager, bootstrap_iters=0, log_samples=False
        )

    return {name: found["results"][name]["acc,none"] for name in names}


def main() -> int:
    """Score a folder; the exit code is 1 if the harness disagrees."""
    made = parser(
        __doc__,
        masked=False,
        harness=(0, "paradigms to compare with lm-eval"),
        most=(int, "pairs a paradigm"),
    )

    made.add_argument("folder", type=Path)
    made.add_argument("pairs", type=Path)
    options = made.parse_args()
    pairs = read_pairs(options.pairs, options.most)
    found = score_folder(options.folder, pairs, options.masked)
    print({name: round(100 * scores["mean"], 2) for name, scores in found.items()})
    differs = False

    if options.harness:
        theirs = score_by_harness(write_causal(options.folder), pairs, options.harness)
        ours = found["causal"]["paradigms"]
        for name, value in theirs.items():
            print(f"{name}: {ours[name]:.4f}, lm-eval {value:.4f}")
            differs |= abs(ours[name] - value) > 1e-4
        found["lm_eval"] = theirs

    write_json(options.json, found)
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())
