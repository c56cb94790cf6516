"""Fetch a published model or tokenizer from the Hugging Face hub.

Names are `hf://org/name` or `hf://org/name@revision`.


`huggingface_hub` reads HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE and HF_HOME. Each file is downloaded
once, into a folder of the cache that has the commit in its name. A configuration then holds the
path of that folder instead of the hub name, and so records the commit.
"""

import re
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Final

from pydantic import BeforeValidator

from clozeline.configuration.redaction import redact_text, remember
from clozeline.errors import ConfigurationError, StorageError, write_note

_SCHEME: Final = "hf:"
_REFERENCE: Final = re.compile(r"hf://([\w.-]+/[\w.-]+)(?:@([\w.-]+(?:/[\w.-]+)*))?")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_SNAPSHOT: Final = re.compile(r"/models--([\w.-]+?)--([\w.-]+)/snapshots/([0-9a-f]{40})(?:/|$)")
_TIMEOUT_S: Final = 10.0
"""Seconds to wait for the list of files of a repository."""
TOKENIZER_FILES: Final = (
    *(
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
    ),
    *(
        "vocab.txt",
        "vocab.json",
        "encoder.json",
        "merges.txt",
        "vocab.bpe",
        "*.model",
        "*.spm",
        "*.tiktoken",
    ),
    *("normalizer.json", "entity_vocab.json"),
    *("chat_template.jinja", "additional_chat_templates/*.jinja", "generation_config.json"),
)
"""Patterns of the small files of a published model: configurations and tokenizer files."""
_WEIGHTS: Final = (
    ("model.safetensors",),
    ("model.safetensors.index.json", "model-*-of-*.safetensors"),
    ("adapter_config.json",),
)
"""Groups of file patterns: weights in one file, weights in several files with an index, a peft
adapter. Only the first group that the repository has completely is downloaded."""


def fetch_folder(source: Path | str, *, weights: bool = True) -> Path:
    """Return the local folder of a published model; download it unless the cache holds it.

    Other paths are returned unchanged. Only the configuration, tokenizer files and safetensors are
    downloaded, never pickled files.

    Args:
        source: `hf://org/name`, or `hf://org/name@revision` with a branch, tag or commit; or a
            path.
        weights: whether the weights are needed.

    Raises:
        ConfigurationError: the name is malformed, the repository or revision does not exist, or it
            has no safetensors.
        StorageError: the hub cannot be reached, and the cache lacks the files.
    """
    text = str(source)
    if not text.startswith(_SCHEME):
        return Path(source)
    if (match := _REFERENCE.fullmatch(text)) is None:
        raise ConfigurationError(
            f"{text}: expected hf://org/name, or hf://org/name@revision with a branch, a tag or a "
            "commit, such as hf://openai-community/gpt2@main"
        )

    name = match[1]
    revision = match[2] or "main"
    # imported here, because it takes 0.3 s and few commands need it
    import huggingface_hub as hub
    from huggingface_hub.errors import (
        HFValidationError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    remember({"token": hub.get_token()})
    endpoint = redact_text(hub.constants.ENDPOINT)

    try:
        names, is_offline = _list_files(hub, name, revision)
        chosen = _choose_files(text, names, weights=weights)
        folder = hub.snapshot_download(
            name, revision=revision, allow_patterns=chosen, local_files_only=is_offline
        )
        if is_offline:
            write_note(f"{text}: {endpoint} was not reached; the cached {folder} may be older")
        return Path(folder)
    except RevisionNotFoundError as error:
        raise ConfigurationError(
            f"{text}: {name} has no revision {revision}: expected a branch, a tag or a commit of "
            "40 digits"
        ) from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        # the model does not exist, or its terms are not accepted
        raise ConfigurationError(
            f"{text}: {endpoint} has no model {name} that you may read: correct the name, or "
            "accept the terms on its page and set HF_TOKEN to a token of your account "
            f"({type(error).__name__})"
        ) from error
    except ConfigurationError:
        raise
    except Exception as error:  # errors of the network have no common class
        if getattr(error, "filename", None):  # the cache, not the network
            raise
        reason = (str(error).strip() or "no reason given").splitlines()[0]
        raise StorageError(
            f"{text}: {endpoint} cannot be read ({type(error).__name__}: {reason}), and the cache "
            f"{hub.constants.HF_HUB_CACHE} (HF_HOME) lacks files; without network, copy the "
            "model's folder from another machine, and give its path instead of the name"
        ) from error


def origin_of(folder: Path) -> str:
    """Return `hf://org/name@commit` if the folder is in the hub cache, else the folder's name."""
    match = _SNAPSHOT.search(folder.absolute().as_posix())
    return f"hf://{match[1]}/{match[2]}@{match[3]}" if match else folder.name


def _list_files(hub: Any, name: str, revision: str) -> tuple[list[str], bool]:
    """Return the files of a revision, and whether the hub is unreachable: use only the cache."""
    from huggingface_hub.errors import CachedRepoTreeNotFoundError, HfHubHTTPError

    cached = None
    with suppress(CachedRepoTreeNotFoundError):
        cached = [entry.path for entry in hub.get_cached_repo_tree(name, revision=revision)]
    if cached is not None and _COMMIT.fullmatch(revision):
        return cached, False  # a commit never changes; missing files are downloaded
    try:
        info = hub.HfApi().model_info(name, revision=revision, timeout=_TIMEOUT_S)
    except Exception as error:  # errors of the network have no common class
        status = error.response.status_code if isinstance(error, HfHubHTTPError) else 0
        is_refused = 400 <= status < 500 and status != 429
        if is_refused or cached is None:
            raise
        return cached, True

    return [entry.rfilename for entry in info.siblings or ()], False


def _choose_files(reference: str, names: list[str], *, weights: bool) -> list[str]:
    """Return the files to download; weights are at the top of the repository."""
    top = [name for name in names if "/" not in name]
    chosen = [name for name in names if is_tokenizer_file(name)]
    if not weights:
        return chosen
    for patterns in _WEIGHTS:
        files = _matching(top, patterns)
        if len(files) >= len(patterns):
            return [*chosen, *files]

    raise ConfigurationError(
        f"{reference}: expected model.safetensors, or model.safetensors.index.json with its parts, "
        f"got {', '.join(top[:6]) or 'nothing'}: other formats, such as pickled weights, are never "
        "downloaded; name a revision that has safetensors, or give a local folder"
    )


def is_tokenizer_file(name: str) -> bool:
    """Return whether a file of a published model is a configuration or a tokenizer file."""
    return any(
        name.count("/") == each.count("/") and fnmatchcase(name, each) for each in TOKENIZER_FILES
    )


def _matching(names: list[str], patterns: tuple[str, ...]) -> list[str]:
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


def _fetch(value: object, *, weights: bool) -> object:
    return (
        str(fetch_folder(value, weights=weights))
        if isinstance(value, str) and value.startswith(_SCHEME)
        else value
    )


MODEL_FETCHED: Final = BeforeValidator(partial(_fetch, weights=True))
"""Annotation of a configuration key that holds a model: an `hf://` name is downloaded with weights,
and replaced by the path of its local folder."""
TOKENIZER_FETCHED: Final = BeforeValidator(partial(_fetch, weights=False))
"""Annotation of a configuration key that holds a tokenizer: an `hf://` name is downloaded without
weights, and replaced by the path of its local folder."""
