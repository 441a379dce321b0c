"""From a plan to variants that wait for a person: what comes next, who does it, and what is written down of it."""
