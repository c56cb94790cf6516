"""Host names of URLs and addresses, in one form for comparison."""

from functools import cache

import tld


@cache
def top_level_domains() -> frozenset[str]:
    """Return all top-level domains in lower case, those in other scripts also in ASCII form; read from the package."""
    tries = tld.get_tld_names() or {}
    return frozenset(name for trie in tries.values() for name in trie.root.children if name)
