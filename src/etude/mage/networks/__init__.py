"""What a network is made of, and what it means to take a module out of it."""
