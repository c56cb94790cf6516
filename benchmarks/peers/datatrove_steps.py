"""datatrove with its own words and sentences, run by the interpreter of an environment that has it and spaCy.

    python -m venv ENV && ENV/bin/pip install datatrove==0.10.1 'xxhash<4' spacy==3.8.18 tokenizers regex rensa==0.5.0
    ENV/bin/python -m benchmarks.peers.datatrove_steps WORK < TEXTS > ANSWER

WORK is a function of this file that takes texts; TEXTS is a JSON list. `ask` runs it from another process. This file
imports nothing of the project.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

RUNS = 3
PEER = (str, "interpreter of an environment with datatrove and spaCy")
"""The option `--peer` of the benchmarks."""


def ask(python: str, work: str, texts: Sequence[str], script: str = __file__) -> Any:
    """Return the answer of the interpreter at `python`, which runs a script; its errors reach the terminal."""
    settings = os.environ | {"LOGURU_LEVEL": "ERROR", "TQDM_DISABLE": "1", "OMP_NUM_THREADS": "1"}
    settings.pop("PYTHONPATH", None)
    command = [python, script, work]
    done = subprocess.run(command, input=json.dumps(texts), stdout=subprocess.PIPE, text=True, env=settings, check=True)
    return json.loads(done.stdout)


def _filters() -> dict[str, Any]:
    from datatrove.pipeline.filters import (
        c4_filters,
        fineweb_quality_filter,
        gopher_quality_filter,
        gopher_repetition_filter,
    )

    return {
        "gopher_quality": gopher_quality_filter.GopherQualityFilter(),
        "c4_quality": c4_filters.C4QualityFilter(),
        "gopher_repetition": gopher_repetition_filter.GopherRepetitionFilter(),
        "fineweb_quality": fineweb_quality_filter.FineWebQualityFilter(),
    }


def verdicts(texts: Sequence[str]) -> dict[str, list[tuple[str, str]]]:
    """Return per filter the reason to reject each text, empty where it is kept, and the text after the filter."""
    from datatrove.data import Document

    answers: dict[str, list[tuple[str, str]]] = {}
    for name, step in _filters().items():
        answers[name] = []
        for text in texts:
            document = Document(text=text, id="")
            answer = step.filter(document)
            answers[name].append(("" if answer is True else answer[1], document.text))
    return answers


def tokens(texts: Sequence[str]) -> list[list[str]]:
    """Return the words of each text."""
    from datatrove.utils.text import split_into_words

    return [split_into_words(text, "eng") for text in texts]


def filter_seconds(texts: Sequence[str]) -> float:
    """Return CPU seconds of the four filters."""
    from datatrove.data import Document

    steps = list(_filters().values())
    return best_seconds(lambda _: [step.filter(Document(text=text, id="")) for text in texts for step in steps])


def dedup_seconds(texts: Sequence[str]) -> dict[str, float]:
    """Return CPU seconds of exact hashes and MinHash signatures 14 x 8, and of rensa's signatures of as many rows."""
    from datatrove.data import Document
    from datatrove.pipeline.dedup import MinhashConfig, MinhashDedupSignature
    from datatrove.pipeline.dedup.exact_dedup import ExactDedupConfig, ExactDedupSignature
    from datatrove.utils.hashing import HashConfig

    hashing = HashConfig(precision=64, hash_fc="xxhash")
    exact = ExactDedupConfig(content_getter=lambda document: document.text, hash_config=hashing)
    near = MinhashConfig(n_grams=5, num_buckets=14, hashes_per_bucket=8, hash_config=hashing)

    def seconds(step: Any, config: Any) -> float:
        return best_seconds(lambda name: step(name, config=config).run(Document(text=text, id="") for text in texts))

    own = {"exact": seconds(ExactDedupSignature, exact), "near": seconds(MinhashDedupSignature, near)}
    try:
        from rensa import RMinHash
    except ImportError:  # a further peer, if the environment has it
        return own

    def sign(_: str) -> None:
        for text in texts:
            words = text.split()
            signature = RMinHash(num_perm=112, seed=1)
            signature.update([" ".join(words[start : start + 5]) for start in range(max(1, len(words) - 4))])
            signature.digest()

    return {**own, "rensa": best_seconds(sign)}


def band_keys(texts: Sequence[str]) -> dict[str, list[list[str]]]:
    """Return the 14 band keys of each text, of 8 rows each: datatrove's, and rensa's where it is installed."""
    from datatrove.pipeline.dedup import MinhashConfig, MinhashDedupSignature
    from datatrove.utils.hashing import HashConfig

    hashing = HashConfig(precision=64, hash_fc="xxhash")
    config = MinhashConfig(n_grams=5, num_buckets=14, hashes_per_bucket=8, hash_config=hashing)
    with tempfile.TemporaryDirectory() as folder:
        step = MinhashDedupSignature(folder, config=config)
        keys = {"datatrove": [list(map(repr, step.get_signature(step.get_shingles(text)))) for text in texts]}
    try:
        from rensa import RMinHash
    except ImportError:
        return keys
    keys["rensa"] = []
    for text in texts:
        words = text.split()
        signature = RMinHash(num_perm=112, seed=1)
        signature.update([" ".join(words[start : start + 5]) for start in range(max(1, len(words) - 4))])
        values = signature.digest()
        keys["rensa"].append([repr(values[start : start + 8]) for start in range(0, 112, 8)])
    return keys


def best_seconds(work: Callable[[str], Any]) -> float:
    """Return the CPU seconds of the best of several runs, each in a fresh folder."""
    seconds = []
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as folder:
            start = time.process_time()
            work(folder)
            seconds.append(time.process_time() - start)
    return min(seconds)


if __name__ == "__main__":
    functions = {
        function.__name__: function for function in (verdicts, tokens, filter_seconds, dedup_seconds, band_keys)
    }
    sys.stdout.write(json.dumps(functions[sys.argv[1]](json.load(sys.stdin))))
