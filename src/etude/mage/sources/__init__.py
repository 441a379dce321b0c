"""What the sources of a project say: files, definitions, names, columns and settings. Nothing here runs them."""
