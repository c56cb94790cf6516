"""Fetch a published model or tokenizer by its name on a hub of Hugging Face: `hf://org/name` or `hf://org/name@revision`.

`huggingface_hub` reads HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE and HF_HOME. A file is downloaded
once; its folder in the cache is named by the commit, so that the configuration of a run or a
pipeline records the commit with the path.
"""

import re
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Final

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
"""Patterns of the small files of a published model: configurations, and what a tokenizer is made
of."""
_WEIGHTS: Final = (
    ("model.safetensors",),
    ("model.safetensors.index.json", "model-*-of-*.safetensors"),
    ("adapter_config.json", "adapter_model.safetensors"),
)
"""Patterns of one file, of parts, and of an adapter of peft; the first that a repository has are
taken."""


def fetch_folder(source: Path | str, *, weights: bool = True) -> Path:
    """Return the local folder of a published model, downloaded unless it is in the cache; other paths as given.

    Only the configuration, the files of the tokenizer and safetensors are downloaded, never a
    pickled file.

    Args:
        source: `hf://org/name`, with `@` and a branch, tag or commit for another revision than the
            newest; or a path.
        weights: whether the weights are needed.

    Raises:
        ConfigurationError: the name is malformed, there is no such repository or revision, or it
            has no safetensors.
        StorageError: the hub cannot be reached, and the cache does not hold the files.
    """
    text = str(source)
    if not text.startswith(_SCHEME):
        return Path(source)
    if (match := _REFERENCE.fullmatch(text)) is None:
        raise ConfigurationError(
            f"{text}: expected hf://org/name, or hf://org/name@revision with a branch, a tag or a "
            "commit, such as "
            "hf://openai-community/gpt2@main"
        )
    name = match[1]
    revision = match[2] or "main"
    # only these commands need the package, which takes 0.3 s to import
    import huggingface_hub as hub
    from huggingface_hub.errors import (
        HFValidationError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    remember({"token": hub.get_token()})
    at = redact_text(hub.constants.ENDPOINT)
    try:
        names, cached = _list_files(hub, name, revision)
        chosen = _choose_files(text, names, weights=weights)
        return Path(
            hub.snapshot_download(
                name, revision=revision, allow_patterns=chosen, local_files_only=cached
            )
        )
    except RevisionNotFoundError as error:
        raise ConfigurationError(
            f"{text}: {name} has no revision {revision}: expected a branch, a tag or a commit of "
            "40 digits"
        ) from error
    except (
        RepositoryNotFoundError,
        HFValidationError,
    ) as error:  # also a model with terms that are not accepted
        raise ConfigurationError(
            f"{text}: {at} has no model {name} for you to read: correct the name, or accept its "
            "terms on its page, and "
            f"set HF_TOKEN to a token of that account ({type(error).__name__})"
        ) from error
    except ConfigurationError:
        raise
    except Exception as error:  # errors of the network have no common class
        reason = (str(error).strip() or "no reason given").splitlines()[0]
        raise StorageError(
            f"{text}: tried {at}, which cannot be read ({type(error).__name__}: {reason}), then "
            "the cache "
            f"{hub.constants.HF_HUB_CACHE}, which lacks files; without network, copy the model's "
            "folder from "
            "elsewhere, and give its path instead of the name"
        ) from error


def origin_of(folder: Path) -> str:
    """Return `hf://org/name@commit` of a folder in the cache of a hub, and the name of any other folder."""
    match = _SNAPSHOT.search(folder.absolute().as_posix())
    return f"hf://{match[1]}/{match[2]}@{match[3]}" if match else folder.name


def _list_files(hub: Any, name: str, revision: str) -> tuple[list[str], bool]:
    """Return the files of a revision, and whether only the cache has them: the hub is not asked, or not reached."""
    from huggingface_hub.errors import CachedRepoTreeNotFoundError, HfHubHTTPError

    cached = None
    with suppress(CachedRepoTreeNotFoundError):
        cached = [entry.path for entry in hub.get_cached_repo_tree(name, revision=revision)]
    if cached is not None and _COMMIT.fullmatch(revision):
        return cached, False  # a commit never changes; missing files are downloaded
    try:
        info = hub.HfApi().model_info(name, revision=revision, timeout=_TIMEOUT)
    except Exception as error:  # errors of the network have no common class
        status = error.response.status_code if isinstance(error, HfHubHTTPError) else 0
        is_refused = 400 <= status < 500 and status != 429
        if is_refused or cached is None:
            raise
        return cached, True
    return [entry.rfilename for entry in info.siblings or ()], False


def _choose_files(reference: str, names: list[str], *, weights: bool) -> list[str]:
    """Return the files to download: weights lie at the top of the repository."""
    top = [name for name in names if "/" not in name]
    chosen = [name for name in names if is_tokenizer_file(name)]
    if not weights:
        return chosen
    found = next(
        (files for patterns in _WEIGHTS if len(files := _matching(top, patterns)) >= len(patterns)),
        None,
    )
    if found is None:
        raise ConfigurationError(
            f"{reference}: expected model.safetensors, or model.safetensors.index.json with its "
            "parts, got "
            f"{', '.join(top[:6]) or 'nothing'}: other formats, pickled ones above all, are never "
            "downloaded; name a "
            "revision that has safetensors, or give a local folder"
        )
    return [*chosen, *found]


def is_tokenizer_file(name: str) -> bool:
    """Return whether a file of a published model, named relative to its folder, is small and not code."""
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
"""Annotation of a key that holds the folder of a model, which may be on a hub."""
TOKENIZER_FETCHED: Final = BeforeValidator(partial(_fetch, weights=False))
"""Annotation of a key that holds a tokenizer, which may be on a hub."""
