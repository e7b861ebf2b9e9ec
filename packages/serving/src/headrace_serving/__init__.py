"""Serve exported models over HTTP by TensorFlow Serving's routes."""
