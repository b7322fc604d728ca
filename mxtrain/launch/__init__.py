"""The way from a job to its processes, on one host or several, and their restarts. Nothing here loads mxnet."""
