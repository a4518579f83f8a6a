# SPDX-License-Identifier: Apache-2.0
"""Trials and explorations on a Dask cluster: which hosts there are, what they do, what is believed.

A host makes recordings and judges them; here its word is checked.  Handing out work, and noticing
that a worker is gone, is the engine's (powercut.cluster.engine); its client is a process apart.
How a single machine of another owner is cut is a matter of `machine/foreign`.
"""
