"""The live view: a page that follows a study from its journal.

A *board* (``board.py``) holds what the page shows of one study, and says for any point in time what is new since; a
*follower* (``following.py``) reads the journal as it grows and keeps the board up to date; the *server* (``server.py``)
gives both to browsers, as events that never need to be repeated: a viewer names the last fact that it knows of. The
*guard* (``guard.py``) decides who may look. Nothing here changes a study; at most it is asked to stop.
"""
