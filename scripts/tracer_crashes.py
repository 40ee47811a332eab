#!/usr/bin/env python3
"""tracer_crashes.py JUNIT.xml: names of failed tests whose output says that LeakSanitizer's own tracer died.

The tracer looks at a process from outside when it ends, and now and then crashes there ("Tracer caught signal 11"): it then has
found nothing, and the test says nothing. ./check runs such a test once more."""
import sys
import xml.etree.ElementTree

for case in xml.etree.ElementTree.parse(sys.argv[1]).iter("testcase"):
    if case.get("status") == "fail" and "Tracer caught signal" in "".join(case.itertext()):
        print(case.get("name"))
