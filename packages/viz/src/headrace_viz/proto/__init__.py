"""Wire format of event files: our own `.proto` file and the Python module generated from it.

The messages carry the field numbers of TensorFlow's messages of the same name and live in the protobuf package
`headrace.viz`, so both may be loaded into one process. Never edit `*_pb2.py` and
`*_pb2.pyi`: `nox -s protos` makes them.
"""
