/* SPDX-License-Identifier: Apache-2.0
 *
 * wal write KEY=VALUE...   writes a log and says what it promised
 * wal read KEY=VALUE...    reads a log back and says what is there
 *
 * Exit status: 0; 1 after an I/O error; 2 if the arguments cannot work.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "../common/wire_out.h"
#include "reader.h"
#include "writer.h"

static int usage(void)
{
    fprintf(stderr, "usage: wal write|read KEY=VALUE...   (see workloads/README.md)\n");
    return 2;
}

int main(int argc, char **argv)
{
    static struct pc_outbox outbox;
    struct pc_problems problems = {0};
    struct wal_config config;

    if (argc < 2)
        return usage();
    bool write = strcmp(argv[1], "write") == 0;

    if (!write && strcmp(argv[1], "read") != 0)
        return usage();
    signal(SIGPIPE, SIG_IGN); /* a channel that is gone is an error like others */
    wal_config_parse(&config, write, argv + 2, &problems);
    int channel = wal_channel_open(config.channel);

    if (channel < 0) {
        fprintf(stderr, "wal: channel=%s: %s\n", config.channel, strerror(-channel));
        return 2;
    }
    if (problems.count) {
        pc_outbox_init(&outbox, channel);
        pc_outbox_error(&outbox, EINVAL, problems.text);
        fprintf(stderr, "wal: %s\n", problems.text);
        return 2;
    }
    return write ? wal_write_run(&config, channel) : wal_read_run(&config, channel);
}
