"""The communication benchmark sums arrays of resnet50's shapes."""

from __future__ import annotations

from benchmarks.comm import resnet50
from mxtrain.runtime import mx


def test_the_shapes_are_those_of_the_net() -> None:
    net = mx.gluon.model_zoo.vision.resnet50_v1()
    net.initialize()
    net.infer_shape(mx.nd.zeros((1, 3, 32, 32)))
    trained = [parameter for parameter in net.collect_params().values() if parameter.grad_req != "null"]
    assert resnet50.shapes() == [parameter.shape for parameter in trained]
    assert len(trained) == 193
