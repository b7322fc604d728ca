"""From a job to its processes, and back up when they fall. Nothing here loads mxnet."""
