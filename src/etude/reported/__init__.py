"""What a report says of a study: gathered from what came of it, its journal, and the code there is now."""
