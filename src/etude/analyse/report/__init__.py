"""The report of a study: facts, figures of them, tables of them, and a page that holds it all."""
