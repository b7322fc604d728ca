"""Sources of pictures with boxes: what people annotate with, and a label that detectors read."""
