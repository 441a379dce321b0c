"""How a question comes about, what it may cost, and what becomes of one that fails."""
