"""For people who extend Étude: a virtual clock, a fake engine, and conformance checks."""
