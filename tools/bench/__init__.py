"""Benchmarks beside other frameworks: same work, own process and environment for each, interleaved rounds."""
