"""What travels between a driver and its workers: messages, and the channel that carries them."""
