"""A program of somebody who has MXNet and no mxtrain: `plain_mxnet.py FOLDER INPUT.npy OUTPUT.npz`.

It answers by the exported net in FOLDER: through Gluon's SymbolBlock, and through Module.
"""

import sys

import numpy as np

np.bool = bool  # type: ignore[attr-defined]  # which mxnet asks of NumPy as it is imported
import mxnet as mx  # noqa: E402

folder, data = sys.argv[1], mx.nd.array(np.load(sys.argv[2]))

block = mx.gluon.SymbolBlock.imports(f"{folder}/net-symbol.json", ["data"], f"{folder}/net-0000.params")
of_block = block(data).asnumpy()

symbol, arguments, auxiliaries = mx.model.load_checkpoint(f"{folder}/net", 0)
module = mx.mod.Module(symbol, data_names=["data"], label_names=None)
module.bind([("data", data.shape)], for_training=False)
module.set_params(arguments, auxiliaries)
module.forward(mx.io.DataBatch([data]))
of_module = module.get_outputs()[0].asnumpy()

assert not any(name.partition(".")[0] == "mxtrain" for name in sys.modules)
np.savez(sys.argv[3], block=of_block, module=of_module)
