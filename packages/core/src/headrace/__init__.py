"""Dataflow graphs: build, differentiate, optimise and run them."""
