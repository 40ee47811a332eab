#!/usr/bin/env python3
"""inconclusive_tests.py JUNIT.xml: names of failed tests that say nothing about what they test. ./check runs these once more.

LeakSanitizer's tracer looks at a process from outside when it ends, and now and then crashes there: it then has found nothing. The
dynamic loader now and then gets no memory from the kernel for a program of the sanitizers, before anything of the program runs."""
import sys
import xml.etree.ElementTree

SAYS_NOTHING = ("Tracer caught signal",
                "error while loading shared libraries: cannot apply additional memory protection after relocation: Cannot allocate memory")

for case in xml.etree.ElementTree.parse(sys.argv[1]).iter("testcase"):
    output = "".join(case.itertext())
    if case.get("status") == "fail" and any(text in output for text in SAYS_NOTHING):
        print(case.get("name"))
