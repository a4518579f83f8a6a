/* SPDX-License-Identifier: Apache-2.0
 *
 * powercut-folder DIR LOG UNIT SEED CONTROL LINES SYNCS: captures what happens in DIR.
 *
 * Mounts itself over DIR, records into LOG.log and LOG.data (folder_format.h) and says "ready\n" on
 * the descriptor CONTROL, a stream socket.  When a byte comes there, or its end, the power goes:
 * the log is closed, "cut 0\n" (or an errno) is the answer, and the process ends, which
 * takes the mount with it if nobody else is in its mount namespace.  What programs say in
 * DIR/.powercut-lines goes to the descriptor LINES, too; over SYNCS comes what folder_run.c sends.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "folder.h"
#include "folder_press.h"

static int control_fd = -1;

static void say(const char *what, int number)
{
    char line[64];
    int length = number < 0 ? snprintf(line, sizeof line, "%s\n", what)
                            : snprintf(line, sizeof line, "%s %d\n", what, number);
    if (write(control_fd, line, (size_t)length) < 0)
        return; /* the controller has gone: its end is seen by wait_cut */
}

static void *wait_cut(void *nothing)
{
    char byte;
    (void)nothing;
    ssize_t got;
    while ((got = read(control_fd, &byte, 1)) < 0 && errno == EINTR)
        continue;
    if (got > 0)
        press_last();
    say("cut", folder_cut());
    _exit(0);
}

static void on_init(void *context, struct fuse_conn_info *connection)
{
    (void)context;
    /* An open that truncates is a truncation, and nothing is kept back. */
    connection->want &= ~(unsigned)(FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_WRITEBACK_CACHE |
                                    FUSE_CAP_HANDLE_KILLPRIV);
    connection->want |= connection->capable & FUSE_CAP_POSIX_ACL;
    say("ready", -1);
}

static int fail(const char *what, int error)
{
    fprintf(stderr, "powercut-folder: %s: %s\n", what, strerror(error));
    return 1;
}

static void lift_file_limit(void)
{
    struct rlimit limit;
    if (!getrlimit(RLIMIT_NOFILE, &limit)) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int serve(const char *directory)
{
    struct fuse_lowlevel_ops operations = {.init = on_init};
    struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
    attributes_operations(&operations);
    data_operations(&operations);
    names_operations(&operations);
    const char *options = "-odefault_permissions,fsname=powercut";
    if (geteuid() == 0) /* in a user namespace, too */
        options = "-odefault_permissions,allow_other,fsname=powercut";
    if (fuse_opt_add_arg(&args, "powercut-folder") || fuse_opt_add_arg(&args, options))
        return fail("arguments", ENOMEM);
    struct fuse_session *session = fuse_session_new(&args, &operations, sizeof operations, NULL);
    if (!session || fuse_session_mount(session, directory))
        return fail(directory, errno ? errno : EIO);
    pthread_t thread;
    int error = pthread_create(&thread, NULL, wait_cut, NULL);
    if (error)
        return fail("a thread", error);
    struct fuse_loop_config config = {.max_idle_threads = 10};
    fuse_session_loop_mt(session, &config);
    say("cut", folder_cut()); /* somebody has unmounted it */
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 8)
        return fail("usage: powercut-folder DIR LOG UNIT SEED CONTROL LINES SYNCS", EINVAL);
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    lift_file_limit();
    uint64_t seed = strtoull(argv[4], NULL, 10);
    int error = press_fork();
    if (error)
        return fail("a helper", error);
    control_fd = atoi(argv[5]);
    folder_tell(atoi(argv[6]));
    error = folder_open(argv[1], argv[2], (uint32_t)strtoul(argv[3], NULL, 10), seed);
    if (error)
        return fail(argv[1], error);
    error = folder_log_base();
    if (!error)
        error = latency_start(seed);
    if (!error)
        error = press_start(seed);
    if (!error)
        error = folder_watch_syncs(argv[1], atoi(argv[7]));
    if (error)
        return fail(argv[1], error);
    umask(0); /* from here on the kernel applies the program's */
    return serve(argv[1]);
}
