"""Runs the suite that this file was put into, and writes its results by name.

    runner.py RESULTS [options of the suite and of unittest]

Each test gives two lines of tab-separated words: `begun` and its name; then how it ended, its
name, and why. A test that ends the process leaves the first line alone.
"""

import multiprocessing
import os
import sys
import unittest
from pathlib import Path

results = open(sys.argv.pop(1), 'w', buffering=1)


def one_line(text):
    return ' '.join(str(text).split())


class ByName(unittest.TextTestResult):
    def write(self, outcome, test, reason=''):
        results.write(f'{outcome}\t{test.id()}\t{one_line(reason)}\n')

    def startTest(self, test):
        self.write('begun', test)
        super().startTest(test)

    def addSuccess(self, test):
        self.write('passed', test)
        super().addSuccess(test)

    def addSkip(self, test, reason):
        self.write('skipped', test, reason)
        super().addSkip(test, reason)

    def addFailure(self, test, error):
        self.write('failed', test, error[1])
        super().addFailure(test, error)

    def addError(self, test, error):
        self.write('failed', test, f'{error[0].__name__}: {error[1]}')
        super().addError(test, error)


# `sys.path` begins with the folder of this file, where the suite's own parser is; its package is that folder.
sys.path.insert(1, str(Path(__file__).parent.parent))
import tests  # noqa: E402
from args_parser import parser  # noqa: E402
from tests.base import RDMATestCase  # noqa: E402

parser.parse_args()

# One test hands an open device to the processes that it starts, as `fork` does. From 3.14 on, Python starts
# them otherwise unless it is told.
multiprocessing.set_start_method('fork')

# Releases after 44 ask the program `rdma` for the device's interface, which asks the kernel, and that knows
# none of ours; without a port they read it in /sys, as release 44 does.
interface_of = RDMATestCase.get_net_name
RDMATestCase.get_net_name = staticmethod(lambda device, port=None: interface_of(device))

# The suite connects to the first address of the device's interface, which is not the device's own
# where that was made for one address among many (`FERROCE_DEV=lo/127.1.2.3`).
device_address = os.environ.get('FERROCE_DEV', '').partition('/')[2]
if device_address:
    first_address = RDMATestCase.get_ip_mac_address
    RDMATestCase.get_ip_mac_address = staticmethod(
        lambda interface: (device_address, first_address(interface)[1]))

unittest.main(module=tests, testRunner=unittest.TextTestRunner(resultclass=ByName))
