"""Measure every tokenizer on one core, next to the batch call of its library.

    python -m benchmarks.encode [--megabytes 4] [--size 8000] [--rounds 5]
        [--only NAME ...] [--json FILE]

Texts are the modules of Python's standard library that hold no special piece, in batches of 256
like the stage's. Both sides return the ids of a batch as arrays, from the same model, loaded again
for each round so that its caches are empty; they take turns. Their ids must be equal. Figures are
MB of text per CPU second in the median round, and the lowest and highest ratio of a round. `stage`
is everything that our stage does with a batch: ids, character offsets and sentence starts.

The tokenizers that we train learn from the same texts. Published ones are a unigram `.model` with
the trainer's own settings, and `tokenizer.json` files exported from ours, one of them with the
words of Llama 3. The peer is the fastest call of the library that we use: `sentencepiece` for each
`.model`, and `encode_batch_fast` of `tokenizers`, which gives no offsets, for the rest. Ours gives
offsets too. A byte BPE with GPT-2's words encodes each different word once.
"""

import statistics
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import figure, finish, parser, seconds_of, system_load, temporary_folder

import numpy as np
import sentencepiece
import tokenizers

from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.registries import SENTENCES, TOKENIZERS
from clozeline.pipeline.tokenize.encode.tokenize_documents import token_documents
from clozeline.pipeline.tokenize.published.exporting import export_tokenizer
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from clozeline.pipeline.tokenize.tokenizers import list_trainable, load_tokenizer, save_tokenizer
from clozeline.pipeline.tokenize.tokenizers._pieces import SPECIAL_PIECES, sentinel_pieces
from clozeline.pipeline.vocabulary import MODES, SENTINELS

SMALLEST = "--megabytes .05 --size 600 --rounds 1"
BATCH = 256
LLAMA3 = "tokenizer_json: byte_bpe, Llama 3's words"
TARGET = 0.5
TARGETS = {"byte_bpe": 1.0, "tokenizer_json: byte_bpe": 1.0, LLAMA3: 0.95}
EXPORTED = ("byte_bpe", "wordpiece", "unigram", "sentencepiece_bpe")
LLAMA3_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SENTENCEPIECE = "spiece.model"
_SPECIAL = (*SPECIAL_PIECES.values(), *sentinel_pieces(SENTINELS), *(f"<{mode}>" for mode in MODES))
Texts = list[str]
Encode = Callable[[Texts], Any]


def documents(megabytes: float) -> list[Document]:
    """Return modules of the standard library, in order of their names."""
    modules: list[Document] = []
    size = 0

    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("[!_s]*/**/*.py")):
        text = (
            path.read_text(encoding="utf-8", errors="replace")
            if "site-packages" not in path.parts
            else ""
        )
        # we read it as letters, and a peer as a special piece
        if any(piece in text for piece in _SPECIAL):
            continue
        if text and size < megabytes * 1e6:
            modules.append(Document(uid=bytes(16), text=text, source=path.name, language="en"))
            size += len(text.encode())

    return modules


def train(name: str, texts: Texts, size: int, folder: Path) -> Path:
    kind: Any = TOKENIZERS.load_class(name)
    save_tokenizer(kind.train(texts[::4], kind.Options(size=size), folder), name, folder)
    return folder


def import_model(texts: Texts, size: int, folder: Path) -> Path:
    """Import a `.model` as T5 has it: unigram, normalized, a space in front."""
    source = folder / "source.model"
    folder.mkdir()

    with source.open("wb") as file:
        sentencepiece.SentencePieceTrainer.Train(
            sentence_iterator=iter(
                [line for text in texts[::4] for line in text.splitlines() if line]
            ),
            model_writer=file,
            vocab_size=size,
            num_threads=1,
            minloglevel=2,
            hard_vocab_limit=False,
            pad_id=0,
            eos_id=1,
            unk_id=2,
            bos_id=-1,
        )

    import_tokenizer(source, folder / "imported", tokenizer_class="T5Tokenizer")
    return folder / "imported"


def import_json(name: str, texts: Texts, size: int, folder: Path) -> Path:
    """Import the `tokenizer.json` that one of our tokenizers is exported to."""
    export_tokenizer(train(name, texts, size, folder / "own"), folder / "exported", texts=())
    import_tokenizer(folder / "exported" / "tokenizer.json", folder / "imported")
    return folder / "imported"


def import_llama3(texts: Texts, size: int, folder: Path) -> Path:
    """Import a byte BPE that splits texts into words as Llama 3 does."""
    folder.mkdir()
    library = tokenizers.Tokenizer(tokenizers.models.BPE())
    splitters = tokenizers.pre_tokenizers
    library.pre_tokenizer = splitters.Sequence(
        [
            splitters.Split(tokenizers.Regex(LLAMA3_WORDS), "isolated"),
            splitters.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    library.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<|end_of_text|>"],
        initial_alphabet=splitters.ByteLevel.alphabet(),
        show_progress=False,
    )
    library.train_from_iterator(texts[::4], trainer)
    library.save(str(folder / "tokenizer.json"))
    import_tokenizer(folder / "tokenizer.json", folder / "imported")
    return folder / "imported"


def load_ours(folder: Path) -> Encode:
    tokenizer = load_tokenizer(folder)
    return lambda texts: [encoding.ids for encoding in tokenizer.encode(texts)]


def load_peer(folder: Path) -> Encode:
    """Return the owner's batch call, in one thread."""
    if (folder / SENTENCEPIECE).exists():
        model = sentencepiece.SentencePieceProcessor(model_file=str(folder / SENTENCEPIECE))
        return lambda texts: model.encode(texts, return_type="numpy", num_threads=1)
    library = tokenizers.Tokenizer.from_str(load_tokenizer(folder).to_tokenizers().to_str())
    return lambda texts: [
        np.array(row.ids) for row in library.encode_batch_fast(texts, add_special_tokens=False)
    ]


def check_ids(ours: Encode, peer: Encode, texts: Texts) -> None:
    """Raise a RuntimeError unless both sides give the same ids: they would not do the same work."""
    same = list(map(np.array_equal, ours(texts), peer(texts)))
    if not all(same):
        raise RuntimeError(
            f"the ids of {same.count(False)} texts differ, such as text {same.index(False)}"
        )


def load_stage(folder: Path) -> Callable[[Sequence[Document]], Any]:
    """Return what the stage does with a batch: ids, offsets and sentence starts."""
    tokenizer = load_tokenizer(folder)
    splitter = SENTENCES.resolve("regex").build()
    return lambda batch: list(token_documents(batch, tokenizer, splitter))


def cpu_seconds(encode: Callable[[Any], Any], batches: Sequence[Any]) -> float:
    return seconds_of(lambda: list(map(encode, batches)))


def measure(name: str, folder: Path, modules: list[Document], rounds: int) -> dict[str, Any]:
    """Return the row of a tokenizer; both sides take turns."""
    batches = [modules[start : start + BATCH] for start in range(0, len(modules), BATCH)]
    texts = [[document.text for document in batch] for batch in batches]
    megabytes = sum(len(text.encode()) for batch in texts for text in batch) / 1e6
    check_ids(load_ours(folder), load_peer(folder), [text for batch in texts for text in batch])
    seconds = [
        (cpu_seconds(load_ours(folder), texts), cpu_seconds(load_peer(folder), texts))
        for _ in range(rounds)
    ]
    ratios = [peer / ours for ours, peer in seconds]
    ours, peer = (
        round(megabytes / statistics.median(side), 2) for side in zip(*seconds, strict=True)
    )
    library = "sentencepiece" if (folder / SENTENCEPIECE).exists() else "tokenizers"
    target = TARGETS.get(name, TARGET)
    ratio = statistics.median(ratios)
    return figure(
        name,
        "MB/s",
        ours,
        peer,
        library,
        target,
        holds=ratio >= target,
        ratio=round(ratio, 2),
        range=f"{min(ratios):.2f}-{max(ratios):.2f}",
        stage=round(megabytes / cpu_seconds(load_stage(folder), batches), 2),
    )


def main() -> int:
    """Measure, print and return the exit code."""
    arguments = parser(__doc__, megabytes=4.0, size=8000, rounds=5)
    arguments.add_argument(
        "--only", nargs="*", default=(), metavar="NAME", help="tokenizers to measure; default: all"
    )
    settings = arguments.parse_args()
    modules = documents(settings.megabytes)
    size = settings.size
    texts = [document.text for document in modules]

    with temporary_folder() as base:
        cases: dict[str, Callable[[], Path]] = {
            name: lambda name=name: train(name, texts, size, base / name)
            for name in list_trainable()
        }
        cases["tokenizer_json: T5"] = lambda: import_model(texts, size, base / "json-t5")

        for name in EXPORTED:
            cases[f"tokenizer_json: {name}"] = lambda name=name: import_json(
                name, texts, size, base / f"json-{name}"
            )

        cases[LLAMA3] = lambda: import_llama3(texts, size, base / "json-llama3")

        chosen = {
            name: make for name, make in cases.items() if not settings.only or name in settings.only
        }
        rows = [measure(name, make(), modules, settings.rounds) for name, make in chosen.items()]

    title = f"encode, {settings.megabytes:g} MB, {size} pieces; {system_load()}"
    return finish(rows, settings.json, title, "range", "stage")


if __name__ == "__main__":
    raise SystemExit(main())
