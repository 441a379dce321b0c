"""What the verbs of an experiment do in this process before anything starts: look, plan, try, refuse."""
