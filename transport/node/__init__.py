"""A node of a cluster as a whole: what it keeps, what it says to the others, and the broker that its clients meet while it leads."""
