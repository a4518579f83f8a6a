/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers the controller's PINGs while the workload runs, so that the controller can
 * tell the guest's clock by its own.  See docs/crash-model.md, "The instant of an ack".
 */
#ifndef POWERCUT_WAL_PONG_H
#define POWERCUT_WAL_PONG_H

#include "failure.h"

/* Starts a thread that answers each PING on `channel` until the process ends or the channel
 * does.  -1: `failure` says why it could not. */
int wal_pong_start(int channel, struct wal_failure *failure);

#endif
