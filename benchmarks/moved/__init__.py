"""What partitions save in data that is moved: networks of our own, a server of records, and who fetches them."""
