"""Tasks of the user's own, each of which fails somewhere."""

from __future__ import annotations

from tests.support.user_code.majority import Majority, RankingQuality


def break_(*_):
    return 1 / 0


class Describing(Majority):
    describe = classmethod(break_)


class Reading(Majority):
    def reader(self, is_training):
        return break_


class Preparing(Majority):
    prepare = break_


class Building(Majority):
    build_net = break_


class Forwarding(Majority):
    def training_forward(self, teacher):
        return break_


class Judging(Majority):
    def plain_forward(self):
        return break_


class Metric(RankingQuality):
    finish = break_


class Measuring(Majority):
    def metrics(self):
        return (Metric(),)


class Unfinished(Majority):
    def build_net(self):
        raise NotImplementedError("to be written")


class WithoutParameters(Majority):
    def build_net(self):
        from mxtrain.runtime import mx

        return mx.gluon.nn.HybridLambda("identity")
