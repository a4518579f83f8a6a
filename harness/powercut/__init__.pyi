# SPDX-License-Identifier: Apache-2.0
# What type checkers see of the names that __init__.py loads lazily.

from powercut.api import Contract as Contract
from powercut.api import Finding as Finding
from powercut.api import PowercutError as PowercutError
from powercut.api import Program as Program
from powercut.api import Recording as Recording
from powercut.api import Verdict as Verdict
from powercut.api import crash_states as crash_states
from powercut.api import load as load
from powercut.api import open as open
from powercut.api import record as record
from powercut.api import run as run
from powercut.api import try_program as try_program

__version__: str
