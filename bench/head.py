# SPDX-License-Identifier: Apache-2.0
"""Flags and the first line of programs that print a file of results."""
import argparse
import datetime
import json


def parser(device=True):
    """Returns a parser with the flags that all of them have. `device`: whether the device of the results is told by a flag."""
    p = argparse.ArgumentParser()
    p.add_argument("--tilewright", default="build/tilewright", help="the command (default: build/tilewright)")
    if device:
        p.add_argument("--device", default="", help="the device that the results are of")
    p.add_argument("--commit", default="", help="what was built")
    return p


def line(device, commit, command, **more):
    """Returns the first line of a file of results."""
    return json.dumps(dict({"device": device, "date": datetime.date.today().isoformat(), "commit": commit, "command": command},
                           **more))
