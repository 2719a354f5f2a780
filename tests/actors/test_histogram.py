"""Histograms: each figure is in one bucket, the one whose bound it does not exceed."""

from __future__ import annotations

import pytest

from actors.queue.structures.histogram import Histogram


@pytest.mark.parametrize(
    ("figure", "bucket"), [(0.0, 0), (1.0, 0), (1.0001, 1), (2.0, 1), (4.0, 2), (4.5, 3), (1e9, 3), (float("inf"), 3)]
)
def test_a_figure_is_counted_in_the_bucket_whose_bound_it_does_not_exceed(figure: float, bucket: int) -> None:
    histogram = Histogram((1.0, 2.0, 4.0))
    histogram.observe(figure)
    assert histogram.counts == [int(bucket == index) for index in range(4)]


def test_a_batch_counts_with_all_its_messages() -> None:
    histogram = Histogram((1.0, 2.0))
    histogram.observe(0.5, 1000)
    histogram.observe(3.0, 2)
    assert (histogram.counts, histogram.sum) == ([1000, 0, 2], 506.0)


@pytest.mark.parametrize("bounds", [(2.0, 1.0), (1.0, 1.0)])
def test_bounds_that_do_not_ascend_are_a_defect(bounds: tuple[float, ...]) -> None:
    with pytest.raises(AssertionError, match="ascend"):
        Histogram(bounds)
