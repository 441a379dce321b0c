"""The parts of a data set: which rows they have, how two are joined, and whether weights have seen them before."""
