"""Adapter to a released SGLang: the one installed, or the one in the folder of `--kv-impl-path`."""

from impl.sglang.adapter import SGLang

__all__ = ["SGLang"]
