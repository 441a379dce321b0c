"""What may make a study say what is not so: one module a threat, each a pure function of what is known of a study."""
