"""The version of both packages, in the one place that the build and `laya.__version__` read."""

__version__ = "0.1.0"
