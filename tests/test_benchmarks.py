# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The benchmark judges steady figures only, and finds rows that became slower."""

import unittest

import _paths

from benchmarks.comparison import BACKEND, BY_HAND, OF_STOCK, RATIO, VALUE, Comparison, Figure, Row, figure

STEADY, UNSTEADY = Figure(1.1, 1.06, 1.16), Figure(1.1, 1.0, 1.12)


def row(limit: float | None, judged: str = RATIO, ratio: Figure | None = STEADY, **kwargs) -> Row:
    comparison = Comparison("work", dict, limit, judged, unit=kwargs.pop("unit", "s"))
    return Row(comparison, kwargs.pop("value", STEADY), ratio, kwargs.pop("stock", None), **kwargs)


class JudgingTest(unittest.TestCase):
    def test_figures(self):
        samples = {BACKEND: [2.0, 3.0, 4.0, 5.0, 6.0], BY_HAND: [2.0] * 5}
        self.assertEqual(figure(RATIO, samples), (2.0, 1.5, 2.5))
        self.assertEqual(figure(VALUE, samples), (4.0, 3.0, 5.0))
        self.assertEqual(figure(VALUE, {BACKEND: [7.0]}), (7.0, 7.0, 7.0))

    def test_which_rows_meet_their_limits(self):
        for one, met in (
            (row(1.1), True),
            (row(1.09), False),
            (row(None), None),
            (row(1.0, ratio=UNSTEADY), None),
            (row(1.0, busy="other processes used 1.0 CPUs"), None),
            (row(1.15, OF_STOCK, stock=Figure(1.0, 0.99, 1.01)), True),
            (row(1.05, OF_STOCK, stock=Figure(1.0, 0.99, 1.01)), False),
            (row(1.05, OF_STOCK, stock=UNSTEADY), None),
            (row(1.05, OF_STOCK), None),
            (row(1.0, stock=UNSTEADY), False),  # the stock backend's figure is not judged
            (row(4.0, VALUE, None, value=Figure(5.0, 1.0, 9.0), unit="B", busy="other processes"), False),
        ):
            with self.subTest(one):
                self.assertIs(one.met, met)


if __name__ == "__main__":
    unittest.main()
