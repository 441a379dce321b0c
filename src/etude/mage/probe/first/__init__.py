"""A folder that stands first on the path of a watched program: what Python imports by itself when it starts."""
