"""Each test on a device, if there is one, and on the processor that stands in for one."""

import pytest

from privboost._core.errors import DeviceError
from privboost.cuda.device import find_devices, open_device
from tests.cuda.processor_device import ProcessorDevice, compiler

_MISSING: set[str] = set()
"""Why there is no device."""


def pytest_terminal_summary(terminalreporter):
    for reason in _MISSING:
        terminalreporter.write_line(f"tests on a device were skipped: {reason}")


def crowd(device):
    """Several devices: one that holds its rows, one that holds a few, and one that holds none."""
    if isinstance(device, ProcessorDevice):
        return [device, *(ProcessorDevice(device.shared_memory, free) for free in (10_000, 0))]
    full = device.with_new_stream()
    full.free = lambda: 0
    return [device, device.with_new_stream(), full]


@pytest.fixture(params=["device", "processor"])
def device(request):
    if request.param == "processor":
        if compiler() is None:
            pytest.skip("no g++ to compile kernels for the processor")
        return ProcessorDevice()
    try:
        return open_device(find_devices()[0])
    except DeviceError as error:
        _MISSING.add(str(error))
        pytest.skip(str(error))
