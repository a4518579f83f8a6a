/* SPDX-License-Identifier: Apache-2.0 */
#include "init.h"

#include "../common/press.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

static void make_mounts(void)
{
    /* The initramfs is mounted already; /dev may be, by the kernel. */
    mkdir("/dev", 0755);
    mkdir("/proc", 0755);
    mkdir("/sys", 0755);
    mkdir("/tmp", 0755);
    if (mount("dev", "/dev", "devtmpfs", 0, NULL) != 0 && errno != EBUSY)
        die("mount /dev");
    if (mount("proc", "/proc", "proc", 0, NULL) != 0)
        die("mount /proc");
    if (mount("sys", "/sys", "sysfs", 0, NULL) != 0)
        die("mount /sys");
    if (mount("tmp", "/tmp", "tmpfs", 0, "size=100%") != 0)
        die("mount /tmp");
}

static void write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        die(path);
    close(fd);
}

/* The kernel starts a program for every event of a device and for every module that it
 * misses.  There is none, but the attempt alone clones a host process each time. */
static void stop_helpers(void)
{
    write_text("/proc/sys/kernel/modprobe", "\n");
    if (access("/sys/kernel/uevent_helper", F_OK) == 0)
        write_text("/sys/kernel/uevent_helper", "\n");
    confine_helpers();
}

static int control_line;

static void open_line(void)
{
    struct termios settings;

    control_line = open("/dev/ttyS0", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (control_line < 0)
        die("open /dev/ttyS0");
    if (tcgetattr(control_line, &settings) != 0)
        die("tcgetattr /dev/ttyS0");
    cfmakeraw(&settings);
    if (tcsetattr(control_line, TCSANOW, &settings) != 0)
        die("tcsetattr /dev/ttyS0");
}

static void answer(void)
{
    page->done = page->sequence;
    share_give();
    if (write(control_line, "d", 1) != 1)
        die("write to the controller");
}

static void take(void)
{
    char byte;

    if (read(control_line, &byte, 1) != 1)
        die("read from the controller");
    share_take();
    page->step = PCU_STEP_NONE;
    page->error = 0;
    page->status = 0;
    page->answer = 0;
    page->reads = 0;
    page->after_answer = 0;
    page->after_lines = 0;
    page->first_lsn = 0;
    page->acked = 0;
    page->attempted = 0;
    page->after = PCU_AFTER_NOT;
    page->what[0] = '\0';
    memset((void *)page->step_ns, 0, sizeof page->step_ns);
}

static int press_all(void)
{
    char *points[DISKS_MAX + 1];

    disks_points(points);
    return press_begin(page->offset, points) == 0 ? 0 : fail(PCU_STEP_CHECK, "press the page cache");
}

static int pressed_put(void)
{
    struct pressed done = press_done();

    page->attempted = done.writebacks;
    page->acked = done.commits;
    return 0;
}

static int let_go(void)
{
    press_let_go();
    return disks_let_go();
}

static int nodes_back(void)
{
    char *points[DISKS_MAX + 1];

    if (disks_mount(LIVE, true) != 0)
        return -1;
    disks_points(points);
    press_take(points);
    return nodes_begin();
}

/* Takes a request, and answers it, while a program is at work. */
static void serve_meanwhile(void)
{
    take();
    switch (page->verb) {
    case PCU_LEFT:
        root_left_put();
        break;
    case PCU_PRESSED:
        pressed_put();
        break;
    case PCU_NODES_END:
        nodes_end();
        break;
    case PCU_NODES_GONE:
        let_go();
        break;
    case PCU_NODES_BEGIN:
        nodes_back();
        break;
    default:
        errno = EBUSY;
        fail(PCU_STEP_CHECK, "verb %u", page->verb);
    }
    answer();
}

/* The parent of a process; -1 if it has gone. */
static int parent_of(pid_t process)
{
    char path[64], text[512];
    const char *end;
    int fd, parent;
    ssize_t got;

    snprintf(path, sizeof path, "/proc/%d/stat", process);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[got < 0 ? 0 : got] = '\0';
    end = strrchr(text, ')'); /* its name may have any */
    return end != NULL && sscanf(end, ") %*c %d", &parent) == 1 ? parent : -1;
}

/* Whether a program's process is left whose parent has ended: such are PID 1's, and those of the
 * kernel are not. */
static bool is_anybody_left(void)
{
    bool found = false;
    struct dirent *entry;
    DIR *all = opendir("/proc");

    while (all != NULL && !found && (entry = readdir(all)) != NULL) {
        pid_t process = (pid_t)atoi(entry->d_name);

        found = process > 1 && parent_of(process) == 1;
    }
    if (all != NULL)
        closedir(all);
    return found;
}

/* `whole`: a program that ends in order, as a daemon's parent does, has not ended before all that it
 * has left. */
void wait_listening(pid_t child, int *status, bool whole)
{
    struct signalfd_siginfo info;
    struct pollfd polled[] = {{-1, POLLIN, 0}, {control_line, POLLIN, 0}};
    uint32_t flags = page->flags; /* each request has its own */
    sigset_t ends;
    pid_t ended;

    sigemptyset(&ends);
    sigaddset(&ends, SIGCHLD);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    polled[0].fd = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
    if (polled[0].fd < 0)
        die("signalfd");
    *status = -1;
    for (;;) {
        int other;

        ended = waitpid(-1, &other, WNOHANG);
        if (ended == child)
            *status = other;
        if (*status > 0 || (*status == 0 && !(whole && is_anybody_left())))
            break;
        if (ended > 0)
            continue;
        polled[1].revents = 0;
        if (ended < 0 || (poll(polled, 2, -1) < 0 && errno != EINTR))
            die("wait for a program");
        while (read(polled[0].fd, &info, sizeof info) > 0)
            ;
        if (polled[1].revents != 0)
            serve_meanwhile();
    }
    page->flags = flags;
    close(polled[0].fd);
    sigprocmask(SIG_UNBLOCK, &ends, NULL);
}

static int serve(void)
{
    switch (page->verb) {
    case PCU_CONFIGURE:
        return plan_parse() != 0 ? -1 : reader_configure();
    case PCU_PATCH:
        return view_patch();
    case PCU_RECOVER:
        return recover();
    case PCU_MOUNT:
        if ((page->flags & PCU_FLAG_LIVE) != 0)
            return fs_mount_live();
        return view_patch() != 0 || view_fresh(NULL) != 0 ? -1 : fs_mount();
    case PCU_UMOUNT:
        return fs_umount();
    case PCU_EXEC:
        return execute_once();
    case PCU_DUMP:
        return view_dump();
    case PCU_LOG:
        return record_dump();
    case PCU_PRESS:
        return press_all();
    case PCU_PRESSED:
        return pressed_put();
    case PCU_LEFT:
        return root_left_put();
    case PCU_BARE:
        return bare();
    case PCU_NODES_END:
        errno = ESRCH;
        return fail(PCU_STEP_CHECK, "nodes that lose their power: the client had ended before");
    default:
        errno = ENOSYS;
        return fail(PCU_STEP_CHECK, "verb %u", page->verb);
    }
}

int main(void)
{
    make_mounts();
    stop_helpers();
    share_map();
    view_setup();
    record_setup();
    open_line();
    if (write(control_line, "h", 1) != 1)
        die("write to the controller");
    for (;;) {
        take();
        serve();
        answer();
    }
}
