"""Tests of the core; a package, so that they can share ``support``."""
