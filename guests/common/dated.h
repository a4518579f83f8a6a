/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POWERCUT_DATED_H
#define POWERCUT_DATED_H

/* From here on what the calling process and all that it starts read is dated: O_NOATIME is refused.
 * For root alone.  Returns 0, or -1 and errno. */
int dated_begin(void);

#endif
