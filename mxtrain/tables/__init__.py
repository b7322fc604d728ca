"""Tables of rows by ids that grow as they are used: the rows a process owns, their optimizers, their files."""
