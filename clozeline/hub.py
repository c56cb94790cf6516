"""Fetch a published model or tokenizer by its name on a hub of Hugging Face: `hf://org/name` or `hf://org/name@revision`.

`huggingface_hub` reads HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE and HF_HOME. A file is downloaded once; its folder in the
cache is named by the commit, so that the configuration of a run or a pipeline records the commit with the path.
"""

import re
import sys
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import BeforeValidator

from clozeline.configuration.redaction import redact_text, remember
from clozeline.errors import ConfigurationError, StorageError

_SCHEME: Final = "hf:"
_REFERENCE: Final = re.compile(r"hf://([\w.-]+/[\w.-]+)(?:@([\w.-]+(?:/[\w.-]+)*))?")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_SNAPSHOT: Final = re.compile(r"/models--([\w.-]+?)--([\w.-]+)/snapshots/([0-9a-f]{40})(?:/|$)")
_TIMEOUT: Final = 10.0
"""Seconds to wait for the first answer."""
TOKENIZER_FILES: Final = (
    *("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.txt", "vocab.json", "encoder.json", "merges.txt", "vocab.bpe", "*.model", "*.spm", "*.tiktoken"),
    *("normalizer.json", "entity_vocab.json"),
    *("chat_template.jinja", "additional_chat_templates/*.jinja", "generation_config.json"),
)
"""Patterns of the small files of a published model: configurations, and what a tokenizer is made of."""
_WEIGHTS: Final = (
    ("model.safetensors",),
    ("model.safetensors.index.json", "model-*-of-*.safetensors"),
    ("adapter_config.json", "adapter_model.safetensors"),
)
"""Patterns of one file, of parts, and of an adapter of peft; the first that a repository has are taken."""
_OTHER_WEIGHTS: Final = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.h5", "*.msgpack", "*.onnx", "*.gguf")


class _Listing(NamedTuple):
    """Names of the files of a revision."""

    names: list[str]
    failure: Exception | None
    """reason for names from the cache; None: the hub sent them"""


def fetch_folder(source: Path | str, *, weights: bool = True) -> Path:
    """Return the local folder of a published model, downloaded unless it is in the cache; other paths as given.

    Only the configuration, the files of the tokenizer and safetensors are downloaded, never a pickled file.

    Args:
        source: `hf://org/name`, with `@` and a branch, tag or commit for another revision than the newest; or a path.
        weights: whether the weights are needed.

    Raises:
        ConfigurationError: the name is malformed, there is no such repository or revision, or it has no safetensors.
        StorageError: the hub cannot be reached, and the cache does not hold the files.
    """
    text = str(source)
    if not text.startswith(_SCHEME):
        return Path(source)
    if (match := _REFERENCE.fullmatch(text)) is None:
        raise ConfigurationError(
            f"{text}: expected hf://org/name, or hf://org/name@revision with a branch, a tag or a commit, such as "
            "hf://openai-community/gpt2@main"
        )
    name, revision = match[1], match[2] or "main"
    # only these commands need the package, which takes 0.3 s to import
    import huggingface_hub as hub
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError, RevisionNotFoundError
    from huggingface_hub.utils.tqdm import disable_progress_bars

    remember({"token": hub.get_token()})
    if not sys.stderr.isatty():
        disable_progress_bars()
    at = redact_text(hub.constants.ENDPOINT)
    failure: Exception | None = None
    try:
        listing = _list_files(hub, name, revision)
        failure = listing.failure
        chosen = _choose_files(text, listing.names, weights=weights)
        local = failure is not None
        return Path(hub.snapshot_download(name, revision=revision, allow_patterns=chosen, local_files_only=local))
    except GatedRepoError as error:
        remedy = "accept its terms on its page, and set HF_TOKEN to a token of that account"
        raise ConfigurationError(f"{text}: {at} gives it only to accounts that accepted its terms: {remedy}") from error
    except RepositoryNotFoundError as error:
        remedy = "correct the name, or set HF_TOKEN if it is private"
        raise ConfigurationError(f"{text}: {at} has no model {name} for you to read: {remedy}") from error
    except RevisionNotFoundError as error:
        raise ConfigurationError(
            f"{text}: {name} has no revision {revision}: expected a branch, a tag or a commit of 40 digits"
        ) from error
    except HFValidationError as error:
        raise ConfigurationError(f"{text}: {error}") from error
    except ConfigurationError:
        raise
    except Exception as error:  # errors of the network have no common class
        why = failure or error
        raise StorageError(
            f"{text}: tried {at}, which cannot be read ({type(why).__name__}: {_first_line(why)}), then the cache "
            f"{hub.constants.HF_HUB_CACHE}, which lacks files; without network, copy the model's folder from "
            "elsewhere, and give its path instead of the name"
        ) from error


def origin_of(folder: Path) -> str:
    """Return `hf://org/name@commit` of a folder in the cache of a hub, and the name of any other folder."""
    match = _SNAPSHOT.search(folder.absolute().as_posix())
    return f"hf://{match[1]}/{match[2]}@{match[3]}" if match else folder.name


def _list_files(hub: Any, name: str, revision: str) -> _Listing:
    """Ask the hub for the files of a revision, and the cache if the hub cannot be reached or the commit is cached."""
    from huggingface_hub.errors import CachedRepoTreeNotFoundError, HfHubHTTPError

    def cached() -> list[str]:
        return [entry.path for entry in hub.get_cached_repo_tree(name, revision=revision)]

    if _COMMIT.fullmatch(revision):
        try:
            return _Listing(cached(), None)  # a commit never changes; missing files are downloaded
        except CachedRepoTreeNotFoundError:
            pass
    try:
        info = hub.HfApi().model_info(name, revision=revision, timeout=_TIMEOUT)
        return _Listing([entry.rfilename for entry in info.siblings or ()], None)
    except Exception as error:  # errors of the network have no common class
        status = error.response.status_code if isinstance(error, HfHubHTTPError) else 0
        if 400 <= status < 500 and status != 429:  # the hub refuses
            raise
        failure = error
    try:
        return _Listing(cached(), failure)
    except CachedRepoTreeNotFoundError:
        raise failure from None


def _choose_files(reference: str, names: list[str], *, weights: bool) -> list[str]:
    """Return the files to download: weights lie at the top of the repository."""
    top = [name for name in names if "/" not in name]
    chosen = [name for name in names if is_tokenizer_file(name)]
    if not weights:
        return chosen
    found = next((files for patterns in _WEIGHTS if len(files := _matching(top, patterns)) >= len(patterns)), None)
    if found is None:
        others = _matching(top, _OTHER_WEIGHTS)
        held = "its weights are in" if others else "it holds"
        held = f"{held} {', '.join((others or top)[:6]) or 'nothing'}"
        raise ConfigurationError(
            f"{reference}: expected model.safetensors, or model.safetensors.index.json with its parts; {held}: other "
            "formats, pickled ones above all, are never downloaded; name a revision that has safetensors, or give a "
            "local folder"
        )
    return [*chosen, *found]


def is_tokenizer_file(name: str) -> bool:
    """Return whether a file of a published model, named relative to its folder, is small and not code."""
    return any(name.count("/") == each.count("/") and fnmatchcase(name, each) for each in TOKENIZER_FILES)


def _matching(names: list[str], patterns: tuple[str, ...]) -> list[str]:
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


def _first_line(error: Exception) -> str:
    return (str(error).strip() or "no reason given").splitlines()[0]


def _fetch(value: Any, *, weights: bool) -> Any:
    return str(fetch_folder(value, weights=weights)) if isinstance(value, str) and value.startswith(_SCHEME) else value


MODEL_FETCHED: Final = BeforeValidator(partial(_fetch, weights=True))
"""Annotation of a key that holds the folder of a model, which may be on a hub."""
TOKENIZER_FETCHED: Final = BeforeValidator(partial(_fetch, weights=False))
"""Annotation of a key that holds a tokenizer, which may be on a hub."""
