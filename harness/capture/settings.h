/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of the plugin.
 */
#ifndef POWERCUT_CAPTURE_SETTINGS_H
#define POWERCUT_CAPTURE_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "disk.h"
#include "injected.h"

enum { PARTS_MAX = 16 };

extern struct capture_config {
    char *base, *log, *control, *directory, *cell;
    uint8_t run_id[16], binding[32];
    uint64_t seed;
    bool volatile_cache, offer_flush, flush_honoured, fua_honoured, ordered, slow;
    uint32_t atomic_unit;
    uint64_t cache_size, flush_latency_ns, fua_latency_ns;
    int owner_fd;
    struct disk_part parts[PARTS_MAX];
    size_t parts_count;
    struct injections injections;
} capture_config;

#define SETTINGS_HELP                                                              \
    "base=FILE           (required) What the disk holds at first; never modified.\n" \
    "log=PREFIX          Record into PREFIX.log and PREFIX.data, which must be new.\n" \
    "run-id=HEX  binding=HEX  seed=N  cell=TEXT  Whose log it is, for its header.\n" \
    "control=SOCKET      Listen there for control commands.\n"                      \
    "control-fd=N        Inherited control connection; its end ends the disk.\n"    \
    "directory=DIR       Removed, with the sockets in it, when the disk ends.\n"    \
    "part=NAME:OFFSET:LENGTH:FLUSH:FUA[:silent]  Bytes that are served as an export and a\n" \
    "                    disk of their own; FLUSH and FUA: honoured or ignored; silent: its\n" \
    "                    clients are told that there is no flush.  Up to 16 times.\n"    \
    "volatile-cache=on|off  flush=honoured|ignored  fua=honoured|ignored\n"         \
    "offer-flush=on|off  off: the client is told that there is no flush.\n"         \
    "ordered=on|off      Recorded promise; the cache destages in order anyway.\n"   \
    "atomic-unit=N       Bytes that never tear: 1, or 512 to 65536 (512).\n"        \
    "cache-size=SIZE     A fuller cache destages its oldest writes; 0: unlimited.\n" \
    "error=ON:WHEN:VALUE:ERROR:TIMES:THEN[:SECTOR:SECTORS]  Fail requests once armed (injected.h).\n" \
    "flush-latency-ns=N  fua-latency-ns=N  How long a flush and a FUA write take (0).\n" \
    "slow=on|off         One of them in 50 takes 50 to 500 ms (off)."

/* nbdkit_plugin.config and .config_complete. */
int settings_set(const char *key, const char *value);
int settings_complete(void);

#endif
