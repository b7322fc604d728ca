"""From a job to its processes, over one host or several, and their restarts. Nothing here loads mxnet."""
