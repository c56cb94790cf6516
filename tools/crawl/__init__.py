"""The parts of the crawler: addresses and links, robots.txt, one HTTP exchange, the WARC it is kept in."""
