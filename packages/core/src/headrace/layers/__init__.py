"""Layers: modules with parameters, put together from public operations (`hr.layers`)."""

from headrace.layers import initializers
from headrace.layers.convolution import AvgPool2D, Conv2D, MaxPool2D
from headrace.layers.dense import Dense
from headrace.layers.module import Module
from headrace.layers.normalization import BatchNorm
from headrace.layers.regularization import Dropout
from headrace.layers.sequential import Flatten, Sequential

__all__ = [
    "AvgPool2D",
    "BatchNorm",
    "Conv2D",
    "Dense",
    "Dropout",
    "Flatten",
    "MaxPool2D",
    "Module",
    "Sequential",
    "initializers",
]
