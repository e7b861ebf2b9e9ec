"""Save and restore variables, and export models in TensorFlow's SavedModel layout."""
