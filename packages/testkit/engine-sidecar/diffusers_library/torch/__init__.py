"""The part of torch that the sidecar `diffusers` touches, for tests on machines without it. TRIAL_CARDS is the number of cards."""

import os
from types import SimpleNamespace

float32, float16, bfloat16 = "float32", "float16", "bfloat16"


class OutOfMemoryError(RuntimeError):
    pass


class Generator:
    def __init__(self, device):
        self.device = device

    def manual_seed(self, seed):
        self.seed = seed
        return self


_cards = int(os.environ.get("TRIAL_CARDS", "0"))
cuda = SimpleNamespace(is_available=lambda: _cards > 0, device_count=lambda: _cards)
backends = SimpleNamespace(mps=SimpleNamespace(is_available=lambda: False))
_hooks = []


class _Handle:
    def __init__(self, hook):
        self.hook = hook
        _hooks.append(hook)

    def remove(self):
        _hooks.remove(self.hook)


def run_module():
    """Runs one module, and so what is to run before it."""
    for hook in [*_hooks]:
        hook(None, ())


nn = SimpleNamespace(modules=SimpleNamespace(module=SimpleNamespace(register_module_forward_pre_hook=_Handle)))
