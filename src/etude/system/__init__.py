"""How the machine is tuned while a model trains: what can be changed, what an epoch was like, and what it cost."""
