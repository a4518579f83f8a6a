# SPDX-License-Identifier: Apache-2.0
"""Trials and crash states on the workers of a Dask cluster.

Dask starts and watches the workers, hands out tasks and makes those of a lost worker again.  Its
hosts are the user's own, and believed: what a worker returns counts as if it had been made here.
"""
