"""Where files lie that are no journal: folders of this machine, and places elsewhere that have a URL."""
