"""A net and a loss of one's own, for pictures some of whose labels are wrong.

    python -m mxtrain.fit --train data/train.rec --val data/val.rec --image-size 32 --augment none \
        --model examples.own_net:mixer --loss examples.own_net:robust --out runs/own

In Python: fit(Run.of(image_size="32", augment="none"), train="data/train.rec", net=mixer(10), loss=robust).

A loss gets the net's answer, (samples, classes) in float32, and the labels, and returns a number for each sample.
"""

from mxtrain.runtime import mx

nn = mx.gluon.nn


class Mixing(mx.gluon.HybridBlock):
    """Patches that look at those around them, then at their own channels (ConvMixer: Trockman and Kolter, 2022)."""

    def __init__(self, channels):
        super().__init__()
        with self.name_scope():
            self.around = nn.HybridSequential()
            self.around.add(
                nn.Conv2D(channels, 5, padding=2, groups=channels, activation="relu"), nn.BatchNorm()
            )
            self.own = nn.HybridSequential()
            self.own.add(nn.Conv2D(channels, 1, activation="relu"), nn.BatchNorm())

    def hybrid_forward(self, F, patches):
        return self.own(patches + self.around(patches))


def mixer(num_classes):
    """Return a net that cuts pictures into patches of 4 x 4 pixels; mxtrain calls it with the number of classes."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(64, 4, strides=4, activation="relu"), nn.BatchNorm())
    for _ in range(3):
        net.add(Mixing(64))
    net.add(nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(num_classes))
    return net


def robust(output, label, q=0.7):
    """Return the generalised cross-entropy (Zhang and Sabuncu, 2018): less pull from labels that look wrong."""
    likelihood = output.softmax(axis=1).pick(label, axis=1)
    return (1 - likelihood**q) / q
