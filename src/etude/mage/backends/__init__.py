"""Who may be asked for a patch: services, programs, people."""
