"""Wire formats of graphs: our own `.proto` files and the Python modules generated from them.

The messages carry the field numbers and enum values of TensorFlow's messages of the same name, so bytes written by one
system are read by the other; they live in the protobuf package `headrace`, so both may be loaded into one process.

The `*_pb2.py` and `*_pb2.pyi` files are generated and checked in; never edit them. After a change to a `.proto` file,
regenerate them with `nox -s protos`.
"""
