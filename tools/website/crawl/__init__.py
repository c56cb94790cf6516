"""Parts of the crawler: URLs and links, robots.txt, HTTP exchanges, and the WARC file that stores them."""
