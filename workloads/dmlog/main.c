/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "dmlog.h"

static const char usage[] =
    "usage: dmlog create NAME DATA LOG   write to DATA through a new device, with a log on LOG\n"
    "       dmlog mark NAME TEXT         put a mark into the log\n"
    "       dmlog status NAME            entries logged, highest sector, logging_disabled\n"
    "       dmlog remove NAME            finish the log and remove the device\n";

static int failed(const char *what, const char *name)
{
    const char *hint = "";

    if (errno == ENXIO || errno == ENOENT)
        hint = " (does it exist, and are the modules dm-mod and dm-log-writes loaded?)";
    else if (errno == EINVAL && strcmp(what, "create") == 0)
        hint = " (is the module dm-log-writes loaded?)";
    else if (errno == EBUSY)
        hint = strcmp(what, "create") == 0 ? " (the name is taken, or a device is in use)"
                                           : " (it is still open or mounted)";
    fprintf(stderr, "dmlog: cannot %s %s: %s%s\n", what, name, strerror(errno), hint);
    return 1;
}

static int with_open(const char *verb, const char *name, const char *text)
{
    struct dmlog dm;
    char line[256];
    int result;

    if (dmlog_open(&dm, name) < 0)
        return failed("open", name);
    if (strcmp(verb, "mark") == 0) {
        result = dmlog_mark(&dm, text);
    } else {
        result = dmlog_status(&dm, line, sizeof(line));
        if (result == 0)
            puts(line);
    }
    if (result < 0)
        failed(verb, name);
    dmlog_close(&dm);
    return result < 0;
}

int main(int argc, char **argv)
{
    char path[256];

    if (argc == 5 && strcmp(argv[1], "create") == 0) {
        if (dmlog_create(argv[2], argv[3], argv[4], path, sizeof(path)) < 0)
            return failed("create", argv[2]);
        puts(path);
        return 0;
    }
    if (argc == 4 && strcmp(argv[1], "mark") == 0)
        return with_open("mark", argv[2], argv[3]);
    if (argc == 3 && strcmp(argv[1], "status") == 0)
        return with_open("status", argv[2], NULL);
    if (argc == 3 && strcmp(argv[1], "remove") == 0)
        return dmlog_remove(argv[2]) < 0 ? failed("remove", argv[2]) : 0;
    fputs(usage, stderr);
    return 2;
}
