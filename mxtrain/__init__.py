"""mxtrain: training for MXNet/Gluon with parameter-server support.

Importing this package loads nothing: mxnet enters through `mxtrain.runtime`, and only when asked for.
"""

__version__ = "0.1.0"
