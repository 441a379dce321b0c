"""What runs attempts: a supervisor, its warm templates, and the child that calls the user's functions.

supervisor   light, imports no framework; talks to the driver, kills what hangs
warm       forked once; imports the packages that studies need, and nothing of the user's
template forked for each study; holds the user's functions
child  forked for each attempt; the only process that runs the user's code
"""
