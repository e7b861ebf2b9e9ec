"""Input pipelines over arrays (`hr.data`)."""

from headrace.data.dataset import Dataset, DatasetIterator, from_arrays

__all__ = ["Dataset", "DatasetIterator", "from_arrays"]
