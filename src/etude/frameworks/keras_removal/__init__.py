"""Taking layers out of Keras models, on each of its backends: read the graph, plan, build anew, check, put in place."""
