"""The offline side: crawl, clean, deduplicate, tokenize, group, corrupt. Never imports torch."""
