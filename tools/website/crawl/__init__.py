"""Parts of the crawler: addresses and links, robots.txt, one HTTP exchange, the WARC that keeps it."""
