"""What is wanted: marks and hints become variants, each with the claims by which it is known to be done."""
