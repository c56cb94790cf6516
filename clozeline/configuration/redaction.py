"""Redact secrets of a configuration from everything that is written or printed.

Secrets are values of keys such as `secret`, `access_key`, `token` and `password`, in a URL the user
and password, and signatures and keys of its query, such as `X-Amz-Signature` and `sig`. Only this
module decides that. Configurations are written through `redact`, messages through `redact_text`.
The latter also replaces every secret that this process has read, so that texts of other packages do
not show it either. Its patterns take time linear in a text: each begins at a mark or at the start
of a word.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, unquote

MASK: Final = "***"
"""Text that replaces a secret."""

_PARTS: Final = re.compile(
    "secret|passw|passphrase|credential|authorization|connectionstring|privatekey|signature"
    "|(token|accesskey|accesskeyid|accountkey|apikey|sharedkey|encryptionkey|pwd)$"
)
# Mappings whose bare `key` is a credential, as of S3, and the query of a URL; elsewhere it names a
# column, say.
_HOLDERS: Final = frozenset({"fsspec", "storage_options", "?"})
# A password may have slashes, but `host:80/a@b` has none; its length is bounded.
_USERINFO: Final = re.compile(
    r"(?<=[\w+.-]:)(//?)(?:[^/?#\s]*|[^/?#\s:@]*:(?!\d+/)[^\s\"'<>]{0,500})@"
)
_QUERY: Final = re.compile(r"(?P<kept>(?<=[?&])(?P<key>[\w.-]+)=)(?P<value>[^&#\s\"'<>]+)")
_ASSIGNMENT: Final = re.compile(r"(?P<kept>(?<![\w.-])(?P<key>[\w.-]+)=)(?P<value>[^\s,;&)\]}]+)")
_QUOTED_ENTRY: Final = re.compile(
    r"""(?P<kept>(["'])(?P<key>[\w.-]+)\2:\s*)(?P<value>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s,{}\[\]]+)"""
)
_MASKED: Final = re.compile(r"(?<=[?&])[\w.-]+=\*\*\*&?|(?:(?<=:/)|(?<=://))\*\*\*@")
# Characters of a secret that is replaced wherever it appears; a shorter one would take parts of
# words with it.
_SHORTEST: Final = 4

_REFERENCE: Final = re.compile(r"\$\{.*\}")
_remembered: set[str] = set()


def is_secret(key: str, *above: str) -> bool:
    """Return whether the value of a key is a secret.

    `above` are the keys of the mappings that it is in.

    Example: `aws_secret_access_key`, `sasToken` and `key` below `fsspec` are; `text_key`,
    `tokenizer` and `tokens` not, nor is `token` below `heads`, a head of a model.
    """
    letters = re.sub(r"[^a-z]", "", key.lower())
    if letters in ("key", "sig"):
        return not _HOLDERS.isdisjoint(above)
    return above[-1:] != ("heads",) and _PARTS.search(letters) is not None


def is_redacted(keys: Sequence[str]) -> bool:
    """Return whether the value at these keys of a configuration is masked when shown.

    Keys count from the outermost one on.
    """
    return any(is_secret(key, *keys[:depth]) for depth, key in enumerate(keys))


def _holds_secret(value: object, key: str, *above: str) -> bool:
    return (
        value is not None
        and value != ""
        and not isinstance(value, bool | float)
        and is_secret(key, *above)
    )


def redact(data: Any, *above: str) -> Any:
    """Return data without its secrets.

    Each value becomes `***`, likewise user and password in a URL.
    """
    if isinstance(data, Mapping):
        return {
            key: MASK if _holds_secret(value, str(key), *above) else redact(value, *above, str(key))
            for key, value in data.items()
        }
    if isinstance(data, (list, tuple)):
        return [redact(item, *above) for item in data]
    return _redact_urls(data) if isinstance(data, str) else data


def redact_text(text: str) -> str:
    """Redact secrets in text.

    Those in URLs, in `key=value`, in quoted mappings, and all secrets read so far.
    """
    text = _redact_urls(redact_known_secrets(text))
    return _QUOTED_ENTRY.sub(_mask_entry, _ASSIGNMENT.sub(_mask_entry, text))


def redact_known_secrets(text: str) -> str:
    """Redact the secrets that this process has read, in text of any length."""
    for secret in sorted(_remembered, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def _redact_urls(text: str) -> str:
    """Mask user, password and signatures of the URLs in a text."""
    text = _USERINFO.sub(rf"\1{MASK}@", text)
    return _QUERY.sub(lambda match: _mask_entry(match, "?"), text)


def _mask_entry(match: re.Match[str], *above: str) -> str:
    *keys, last = match["key"].split(".")
    return (
        f"{match['kept']}{MASK}" if _holds_secret(match["value"], last, *above, *keys) else match[0]
    )


def leaves(data: object, *keys: str) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield the values that are no mapping or list, each with its keys and indices."""
    if not isinstance(data, (Mapping, list, tuple)):
        yield keys, data
        return
    for key, value in data.items() if isinstance(data, Mapping) else enumerate(data):
        yield from leaves(value, *keys, str(key))


def remember(data: object, *above: str) -> None:
    """Keep the secrets of data, below the keys `above`, for `redact_text`."""
    for keys, value in leaves(data, *above):
        secrets: list[str] = []

        if isinstance(value, str):
            secrets += [
                url[0][len(url[1]) : -1].partition(":")[2] for url in _USERINFO.finditer(value)
            ]
            secrets += [
                query["value"] for query in _QUERY.finditer(value) if is_secret(query["key"], "?")
            ]

        if any(_holds_secret(value, key, *keys[:depth]) for depth, key in enumerate(keys)):
            secrets += str(value).splitlines()
        secrets = [secret for secret in secrets if not _REFERENCE.fullmatch(secret)]
        forms = (
            form for secret in secrets for form in (secret, unquote(secret), quote(secret, safe=""))
        )
        _remembered.update(form for form in forms if len(form) >= _SHORTEST and form != MASK)


def without_masks(data: object) -> object:
    """Return data as if what is masked had not been given."""
    if isinstance(data, Mapping):
        return {key: without_masks(value) for key, value in data.items() if value != MASK}
    if isinstance(data, list):
        return [without_masks(item) for item in data]
    return _MASKED.sub("", data) if isinstance(data, str) else data
