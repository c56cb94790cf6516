"""Scripts for people: look into shards, check them, crawl a site."""
