# SPDX-License-Identifier: Apache-2.0
"""What a guest boots: kernels and packages of Debian suites, the initramfs with the agent."""
