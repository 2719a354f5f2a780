"""A broker's settings: their table, their units, and the file, environment and arguments that they come from."""
