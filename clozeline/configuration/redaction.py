"""Redact secrets of a configuration from everything that is written or printed.

Secrets are values of keys such as `secret`, `access_key`, `token` and `password`, all below
`headers`, in a URL the user and password, and each value of its query and fragment whose name is
not known to be harmless, such as `page`. Only this module decides that. Configurations are written
through `redact`, messages through `redact_text`.
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
    "secret|passw|passphrase|credential|authorization|connectionstring|privatekey"
    "|(token|accesskey|accesskeyid|accountkey|apikey|sharedkey|encryptionkey|pwd"
    "|auth|cookies?|headers?)$"
)
# Mappings whose bare `key` is a credential, as of S3; elsewhere it names a column, say.
_HOLDERS: Final = frozenset({"fsspec", "storage_options"})
_HARMLESS: Final = (
    "action|alt|config|dataset|date|dl|download|expires|export|file|filename|format|generation|id"
    "|lang|language|length|limit|name|offset|page|part|raw|ref|revision|rows|size|split|title|type"
    "|version|versionid|year"
)
"""Names in the query of a URL whose values are shown."""
# A password may have slashes, but `host:80/a@b` has none; its length is bounded.
_USERINFO: Final = re.compile(
    r"(?<=[\w+.-]:)(//?)(?:[^/?#\s]*|[^/?#\s:@]*:(?!\d+/)[^\s\"'<>]{0,500})@"
)
# URLs, and the target of a request; the folder `a;b=1` is neither.
_ADDRESS: Final = re.compile(r":/\S+|(?<![^\s\"'(])/[^\s?\"'(]*\?\S+")
# The mark behind a URL in a sentence is none of the value.
_QUERY: Final = re.compile(
    rf"((?<=[?&;#])(?!(?:{_HARMLESS})=)[^=?&;#\s\"'<>]+=)"
    r"((?:[^&#\s\"'<>]|[\"'](?=\w))+)(?<![:,.)])",
    re.IGNORECASE,
)
_ASSIGNMENT: Final = re.compile(r"(?P<kept>(?<![\w.-])(?P<key>[\w.-]+)=)(?P<value>[^\s,;&)\]}]+)")
_QUOTED_ENTRY: Final = re.compile(
    r"""(?P<kept>(["'])(?P<key>[\w.-]+)\2:\s*)(?P<value>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s,{}\[\]]+)"""
)
_MASKED: Final = re.compile(r"(?<=[?&;#])[^=?&;#\s\"'<>]+=\*\*\*[&;]?|(?:(?<=:/)|(?<=://))\*\*\*@")
# Characters of a secret that is replaced wherever it appears; a shorter one would take parts of
# words with it.
_SHORTEST: Final = 4
_SHORTEST_OF_QUERY: Final = 8
"""Likewise, of a value in a query, which may be a word such as `csv`."""

_REFERENCE: Final = re.compile(r"\$\{.*\}")
_remembered: set[str] = set()


def is_secret(key: str, *above: str) -> bool:
    """Return whether the value of a key is a secret.

    `above` are the keys of the mappings that it is in.

    Example: `aws_secret_access_key`, `sasToken` and `key` below `fsspec` are; `text_key`,
    `tokenizer` and `tokens` not, nor is `token` below `heads`, a head of a model.
    """
    letters = re.sub(r"[^a-z]", "", key.lower())
    if letters in ("key", "sig", "sas", "params"):
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
    return _redact_urls(data) if isinstance(data, str) and ":/" in data else data


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
    """Mask user, password, query and fragment of the URLs in a text."""
    text = _USERINFO.sub(rf"\1{MASK}@", text)
    return _ADDRESS.sub(lambda address: _QUERY.sub(rf"\1{MASK}", address[0]), text)


def _mask_entry(match: re.Match[str]) -> str:
    *keys, last = match["key"].split(".")
    return f"{match['kept']}{MASK}" if _holds_secret(match["value"], last, *keys) else match[0]


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
                query[2] for query in _QUERY.finditer(value) if len(query[2]) >= _SHORTEST_OF_QUERY
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
