/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel modules: /modules/order holds those that every guest loads, /modules/order.NAME
 * those that NAME (a file system, a driver) needs besides.
 */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ORDER_SIZE 8192

unsigned modules_loaded;
char modules_failed[1024];

static bool load_module(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return failed(errno, "open %s", path);
    long result = syscall(SYS_finit_module, fd, "", 0);
    int error = errno;
    close(fd);
    if (result && error != EEXIST)
        return failed(error, "finit_module %s", path);
    modules_loaded += result == 0;
    return true;
}

/* Loads the modules that the file `list` names, one path a line, in its order.
 * A module that fails does not stop the others; the first failure is kept. */
bool modules_load(const char *list)
{
    char text[ORDER_SIZE], *rest = text, *path;
    struct failure first = {0};

    if (!read_text(list, text, sizeof text))
        return false;
    while ((path = strsep(&rest, "\n"))) {
        if (!*path || load_module(path))
            continue;
        size_t used = strlen(modules_failed);
        snprintf(modules_failed + used, sizeof modules_failed - used, "%s%s (%s)",
                 used ? ", " : "", path, strerror(last_failure.error));
        if (!first.error)
            first = last_failure;
    }
    if (!first.error)
        return true;
    last_failure = first;
    return false;
}

/* Loads what every guest needs, and what powercut.load names. */
void modules_boot(void)
{
    char wanted[256], *rest = wanted, *type, list[300];

    if (access("/modules/order", F_OK) == 0)
        modules_load("/modules/order"); /* failures are in HELLO: the port may work all the same */
    if (!kernel_argument("powercut.load", wanted, sizeof wanted))
        return;
    while ((type = strsep(&rest, ","))) {
        snprintf(list, sizeof list, "/modules/order.%s", type);
        if (*type && access(list, F_OK) == 0)
            modules_load(list);
    }
}
