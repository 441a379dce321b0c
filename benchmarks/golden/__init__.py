"""Golden cases: published studies, each judged by the same code, beside what was concluded from it."""
