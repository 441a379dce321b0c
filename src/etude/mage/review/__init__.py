"""Who says yes to a variant: a person at a terminal, or a policy that somebody has written beforehand."""
