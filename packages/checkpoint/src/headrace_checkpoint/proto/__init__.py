"""Wire formats of TensorFlow's checkpoints and saved models: our own `.proto` files and the generated Python modules.

As in `headrace.graph.proto`, field numbers are TensorFlow's and the protobuf package is ours. The `*_pb2.py` and
`*_pb2.pyi` files are generated and checked in; never edit them. After a change to a `.proto` file, regenerate them
with `nox -s protos`.
"""
