"""One imported release: its modules, its process-wide context, and the few places where a CPU is told it serves a GPU.

One release a process. The release is the SGLang that Python finds, or the one in the folder of
`--kv-impl-path` (a folder that holds `sglang/`).
"""

import importlib
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from types import MethodType
from typing import Any

from impl import PATH_VARIABLE, UnknownImplementation
from impl.sglang.drift import AdapterDrift, Record
from impl.sglang.releases import Release, release_of


class NoSGLang(UnknownImplementation):
    """SGLang was asked for and cannot be imported."""


def find_sglang() -> Any:
    """The `sglang` package, from the given path first."""
    path = os.environ.get(PATH_VARIABLE)
    if path:
        path = os.path.abspath(path)
        if not os.path.isfile(os.path.join(path, "sglang", "__init__.py")):
            raise NoSGLang(f"the folder {path!r} holds no sglang/ (of a checkout, give its python/)")
        sys.path.insert(0, path)
    try:
        package = importlib.import_module("sglang")
    except ImportError as error:
        raise NoSGLang(
            f"SGLang cannot be imported ({error}): install it here, or give a folder with --kv-impl-path"
        ) from error
    if path and not str(package.__file__).startswith(os.path.join(path, "sglang", "")):
        raise NoSGLang(f"the folder {path!r} is given, but sglang comes from {package.__file__}")
    return package


class World:
    """A release after import, ready to be driven."""

    def __init__(self) -> None:
        warnings.filterwarnings("ignore", module=r"sglang\.")
        package = find_sglang()
        self.version = str(package.__version__)
        self.path = os.path.dirname(str(package.__file__))
        self.release: Release = release_of(self.version)
        Record.release = self.version
        logging.getLogger("sglang").setLevel(logging.CRITICAL + 1)
        logging.getLogger().setLevel(logging.ERROR)
        self.torch: Any = importlib.import_module("torch")
        self.configurators = self.module("model_executor.pool_configurator")
        self.model_config = self.module("configs.model_config")
        self.layer_setup = self.module(
            "model_executor.model_runner_components.layer_setup"
            if self.release.takes_configurator
            else "model_executor.model_runner"
        )
        self.envs = self.module("environ").envs
        self.spec_info = self.module("speculative.spec_info")
        self.start_up = self.found(self.release.start_up)
        self.start_up_module = self.module(self.release.start_up.partition(":")[0])
        self.context = self.module("runtime_context")
        self.server_args_class = self.module("server_args").ServerArgs
        self.attention_arch = self.model_config.AttentionArch
        self.published: Any = None
        if self.release.takes_configurator:
            self.published = self.context.get_context().override_server_args().install()
        self._open: dict[str, dict[str, Any]] = {}
        self._scopes: dict[str, ExitStack] = {}
        self._attention_ranks = 1
        self._serve_a_gpu()

    def module(self, name: str) -> Any:
        """A module of the release, below `srt`."""
        return importlib.import_module(f"sglang.srt.{name}")

    def found(self, location: str) -> Any:
        """The object at `module:name` below `srt`."""
        module_name, _, name = location.partition(":")
        module = self.module(module_name)
        if not hasattr(module, name):
            raise AdapterDrift(f"{name} of {module_name}", self.version, str(module.__file__))
        return getattr(module, name)

    def bind(self, record: Record, owner: type, *names: str) -> None:
        """Gives a record methods of the release's own class: the very code that would run."""
        file = str(sys.modules[owner.__module__].__file__)
        for name in names:
            if not hasattr(owner, name):
                raise AdapterDrift(f"{owner.__name__}.{name}", self.version, file)
            method = getattr(owner, name)
            record.__dict__[name] = MethodType(method, record)

    def _serve_a_gpu(self) -> None:
        """What a release asks the machine, answered as a CUDA machine would: FP4 rows exist (elsewhere
        `is_float4_e2m1fn_x2` is false whatever the dtype), fp8_e5m2 is allowed, and memory is what the scenario says.
        """
        fp4 = self.torch.float4_e2m1fn_x2

        def is_fp4(dtype: Any) -> bool:
            return bool(dtype == fp4)

        for module in list(sys.modules.values()):
            name = getattr(module, "__name__", "")
            if name.startswith("sglang.srt") and "is_float4_e2m1fn_x2" in vars(module):
                vars(module)["is_float4_e2m1fn_x2"] = is_fp4
        if self.release.dtype_resolver is not None:
            dtypes = self.module(self.release.dtype_resolver.partition(":")[0])
            if hasattr(dtypes, "current_platform"):
                dtypes.current_platform = Record("current_platform", is_cpu=lambda: False)
        if not self.release.takes_configurator:
            self.configurators.get_attention_tp_size = lambda: self._attention_ranks
            self.start_up_module.get_attention_tp_size = lambda: self._attention_ranks
        module_of_device = self.torch.get_device_module
        vars(self.torch)["get_device_module"] = lambda device=None: (
            self.torch.cpu if str(device) == "meta" else module_of_device(device)
        )
        if hasattr(self.start_up_module, "gc"):
            self.start_up_module.gc = Record("gc", collect=lambda: 0)

    def enter(self, leaves: dict[str, dict[str, Any]], parallel: dict[str, Any]) -> None:
        """Makes these configuration leaves and this topology the process's, through the release's own scoped
        overrides. A scope stays open until another scenario needs other values in it."""
        if not self.release.takes_configurator:
            self._attention_ranks = parallel["attn_tp_size"]
            return
        try:
            if self._reopens("parallel", parallel):
                self._scopes["parallel"].enter_context(self.context.get_parallel().override(**parallel))
            for namespace in self.release.namespaces:
                if self._reopens(namespace, leaves[namespace]):
                    for bag, values in self._bags(namespace, leaves[namespace]):
                        self._scopes[namespace].enter_context(bag.override(**values))
        except (ValueError, AttributeError) as error:
            raise AdapterDrift(str(error), self.version, str(self.context.__file__)) from error

    def _reopens(self, scope: str, values: dict[str, Any]) -> bool:
        """Closes a scope that holds other values. True where it must be opened again."""
        if self._open.get(scope) == values:
            return False
        if scope in self._scopes:
            self._scopes[scope].close()
        self._scopes[scope] = ExitStack()
        self._open[scope] = values
        return True

    def _bags(self, namespace: str, values: dict[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
        """A namespace's leaves, those of sub-groups (`kernel.attention_backend`) apart."""
        bag = getattr(self.context, f"get_{namespace}")()
        groups: dict[str, dict[str, Any]] = {}
        for name, value in values.items():
            group, _, leaf = name.rpartition(".")
            groups.setdefault(group, {})[leaf] = value
        for group, here in groups.items():
            yield (getattr(bag, group) if group else bag), here


class Ear(logging.Handler):
    """Keeps what one logger warns of. Listens for good; `told` empties it."""

    def __init__(self, logger_name: str) -> None:
        super().__init__(logging.WARNING)
        self._messages: list[str] = []
        logger = logging.getLogger(logger_name)
        logger.addHandler(self)
        logger.setLevel(logging.WARNING)
        logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps one message."""
        self._messages.append(record.getMessage())

    def told(self) -> tuple[str, ...]:
        """The warnings since the last call."""
        messages, self._messages = tuple(self._messages), []
        return messages
