"""Redact secrets of a configuration from everything that is written or printed.

Secrets are values of keys such as `secret`, `access_key`, `token` and `password`, in a URL the user and password, and
signatures and keys of its query, such as `X-Amz-Signature` and `sig`.
Only this module decides that. Configurations are written through `redact`, messages through `redact_text`. The
latter also replaces every secret that this process has read, so that texts of other packages do not show it either.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

MASK: Final = "***"
"""Text that replaces a secret."""

_PARTS: Final = (
    "secret", "passw", "passphrase", "credential", "authorization", "connectionstring", "privatekey", "signature",
)  # fmt: skip
_ENDS: Final = ("token", "accesskey", "accesskeyid", "accountkey", "apikey", "sharedkey", "encryptionkey", "pwd")
# Mappings whose bare `key` is a credential, as of S3; elsewhere it is the name of a column, say.
_OPTIONS_OF_PACKAGES: Final = frozenset({"fsspec", "storage_options"})
_USERINFO: Final = re.compile(
    r"([a-z][a-z0-9+.-]*:/{1,2})(?:[^/?#\s]*|[^/?#\s:@]*:(?!\d+/)[^\s\"'<>]*)@", re.IGNORECASE
)
_QUERY: Final = re.compile(r"(?<=[?&])([\w.-]+)=([^&#\s\"'<>]+)")
_SIGNATURES: Final = frozenset({"sig", "key"})
"""Further keys of a query that hold a secret: the signature of Azure, and keys of web services."""
_MASKED_QUERY: Final = re.compile(rf"(?<=[?&])[\w.-]+={re.escape(MASK)}&?")
_MASKED_USERINFO: Final = re.compile(rf"(:/{{1,2}}){re.escape(MASK)}@")
_QUOTED_ENTRY: Final = re.compile(r"""((["'])([\w.-]+)\2:\s*)("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s,{}\[\]]+)""")
_ASSIGNMENT: Final = re.compile(r"([\w.-]+)=([^\s,;&)\]}]+)")
# Characters of a secret that is replaced wherever it appears; a shorter one would take parts of words with it.
_SHORTEST: Final = 4

_remembered: set[str] = set()


def is_secret(key: str, *above: str) -> bool:
    """Return whether the value of a key is a secret; `above` are the keys of the mappings that it is in.

    Example: `aws_secret_access_key`, `sasToken` and `key` below `fsspec` are; `text_key`, `tokenizer` and `tokens` not,
    nor is `token` below `heads`, a head of a model.
    """
    if above[-1:] == ("heads",):
        return False
    letters = re.sub(r"[^a-z]", "", key.lower())
    return (
        any(part in letters for part in _PARTS)
        or letters.endswith(_ENDS)
        or (letters == "key" and not _OPTIONS_OF_PACKAGES.isdisjoint(above))
    )


def redact(plain: Any, *above: str) -> Any:
    """Return plain data without its secrets: `***` for each value, and for user and password in a URL."""
    if isinstance(plain, Mapping):
        return {
            key: MASK if _holds_secret(value, str(key), *above) else redact(value, *above, str(key))
            for key, value in plain.items()
        }
    if isinstance(plain, (list, tuple)):
        return [redact(item, *above) for item in plain]
    return _redact_url(plain) if isinstance(plain, str) else plain


def _redact_url(text: str) -> str:
    """Mask user, password and signatures of the URLs in a text."""
    text = _USERINFO.sub(rf"\1{MASK}@", text)
    return _QUERY.sub(lambda match: f"{match[1]}={MASK}" if _signs(match[1]) else match[0], text)


def _signs(key: str) -> bool:
    return key.lower() in _SIGNATURES or is_secret(key)


def _holds_secret(value: Any, key: str, *above: str) -> bool:
    return value is not None and value != "" and not isinstance(value, bool) and is_secret(key, *above)


def redact_text(text: str) -> str:
    """Redact secrets in text: in URLs, in `key=value`, in quoted mappings, and all secrets read so far."""
    text = redact_known_secrets(text)
    text = _redact_url(text)
    text = _ASSIGNMENT.sub(lambda match: _mask(match, match[1], match[2], f"{match[1]}="), text)
    return _QUOTED_ENTRY.sub(lambda match: _mask(match, match[3], match[4], match[1]), text)


def redact_known_secrets(text: str) -> str:
    """Redact the secrets that this process has read, in text of any length."""
    for secret in sorted(_remembered, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def _mask(match: re.Match[str], key: str, value: str, kept: str) -> str:
    *above, last = key.split(".")
    return f"{kept}{MASK}" if _holds_secret(value, last, *above) else match[0]


def _leaves(plain: Any, *keys: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the values that are no mapping or list, each with its keys and indices."""
    if not isinstance(plain, (Mapping, list, tuple)):
        yield keys, plain
        return
    for key, value in plain.items() if isinstance(plain, Mapping) else enumerate(plain):
        yield from _leaves(value, *keys, str(key))


def remember(plain: Any) -> None:
    """Keep the secrets of plain data for `redact_text`."""
    for keys, value in _leaves(plain):
        urls = _USERINFO.finditer(value) if isinstance(value, str) and "@" in value else ()
        secrets = [url[0].removeprefix(url[1]).removesuffix("@").partition(":")[2] for url in urls]
        if isinstance(value, str):
            secrets += [query[2] for query in _QUERY.finditer(value) if _signs(query[1])]
        if any(_holds_secret(value, key, *keys[:depth]) for depth, key in enumerate(keys)):
            secrets += str(value).splitlines()
        for secret in secrets:
            for form in (secret, unquote(secret), quote(secret, safe="")):
                if len(form) >= _SHORTEST and form != MASK and not form.startswith("${"):
                    _remembered.add(form)


def iter_masked_keys(plain: Any) -> Iterator[str]:
    """Yield the dotted keys whose values `redact` has masked."""
    for keys, value in _leaves(plain):
        if isinstance(value, str) and (value == MASK or _MASKED_USERINFO.search(value) or _MASKED_QUERY.search(value)):
            yield ".".join(keys)


def without_masks(plain: Any) -> Any:
    """Return plain data as if what is masked had not been given."""
    if isinstance(plain, Mapping):
        return {key: without_masks(value) for key, value in plain.items() if value != MASK}
    if isinstance(plain, list):
        return [without_masks(item) for item in plain]
    return _MASKED_QUERY.sub("", _MASKED_USERINFO.sub(r"\1", plain)) if isinstance(plain, str) else plain
