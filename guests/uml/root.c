/* SPDX-License-Identifier: Apache-2.0
 *
 * The host's own files as the root of the programs that PID 1 starts, or one folder of them into
 * which a root file system was unpacked.
 *
 * They are hostfs, mounted read-only: a program finds what is installed there, and
 * changes none of it.  Where programs write as a matter of course there are empty
 * file systems in memory; what the host has there is hidden, but for the folders that
 * the plan names as visible.  The only network is the loopback device, beside a card that leads
 * nowhere: a database may talk to its client, and to nothing else.
 *
 * Each recovery is another boot to them (its id, that is), and so is life after it: a store may trust
 * what was never synced as long as the machine has not booted since, and ask the kernel whether it has.
 */
#include "init.h"

#include "../../harness/guard/same_machine.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROGRAM "/opt/powercut" /* as powercut.workload.program.workload says */
#define TOOLS "/run/powercut"   /* as powercut.workload.program.sync_trace says */

#define RANDOM "/proc/sys/kernel/random/"
#define BOOT_ID "/boot_id"

static const char *const volatile_folders[] = {"/tmp", "/run", "/var/tmp", "/dev/shm"};

#define MACHINE "/machine" /* what is shown of it */

static bool is_set_up;

static int over(const char *type, const char *folder, unsigned long flags, const char *options)
{
    char path[512];

    snprintf(path, sizeof path, ROOT "%s", folder);
    if (mount(type, path, type, flags, options) != 0)
        return fail(PCU_STEP_CHECK, "mount %s on %s", type, path);
    return 0;
}

static int make_folders(char *path)
{
    char *slash;

    for (slash = strchr(path + strlen(ROOT) + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash != NULL)
            *slash = '\0';
        if (mkdir(path, 0755) != 0 && errno != EEXIST && errno != EROFS)
            return fail(PCU_STEP_CHECK, "mkdir %s", path);
        if (slash == NULL)
            return 0;
        *slash = '/';
    }
}

static int is_below(const char *path, const char *folder)
{
    size_t length = strlen(folder);

    return strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

/* Shows a folder of the host as `folder`, if one of the empty file systems hides that. */
static int show(const char *from, const char *folder)
{
    char path[512];
    size_t index;

    for (index = 0; index < sizeof volatile_folders / sizeof *volatile_folders; index++) {
        if (!is_below(folder, volatile_folders[index]))
            continue;
        snprintf(path, sizeof path, ROOT "%s", folder);
        if (make_folders(path) != 0)
            return -1;
        return over("hostfs", folder, MS_RDONLY, from);
    }
    return 0;
}

int link_up(const char *name)
{
    struct ifreq request = {0};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), result = -1;

    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (fd >= 0 && ioctl(fd, SIOCGIFFLAGS, &request) == 0) {
        request.ifr_flags |= IFF_UP;
        result = ioctl(fd, SIOCSIFFLAGS, &request);
    }
    if (fd >= 0)
        close(fd);
    return result;
}

/* Of what a mount point lies in nothing goes. */
static int remove_one(const char *path, const struct stat *status, int type, struct FTW *at)
{
    (void)status, (void)type;
    return at->level == 0 || remove(path) == 0 || errno == EBUSY || errno == ENOTEMPTY ? 0 : -1;
}

static char *names;
static size_t names_room;
static bool names_cut;

static int name_one(const char *path, const struct stat *status, int type, struct FTW *at)
{
    const char *inside = path + strlen(ROOT);
    size_t size = strlen(inside) + 1;

    (void)at;
    if (type != FTW_SL && !(type == FTW_F && S_ISREG(status->st_mode) && status->st_size > 0))
        return 0;
    if (size > names_room) {
        names_cut = true;
        return 0;
    }
    memcpy(names, inside, size);
    names += size;
    names_room -= size;
    return 0;
}

size_t root_left(char *into, size_t size, bool *cut)
{
    char path[512];
    size_t index;

    names = into;
    names_room = size;
    names_cut = false;
    for (index = 0; is_set_up && index < sizeof volatile_folders / sizeof *volatile_folders; index++) {
        snprintf(path, sizeof path, ROOT "%s", volatile_folders[index]);
        if (nftw(path, name_one, 16, FTW_PHYS | FTW_MOUNT) != 0)
            names_cut = true;
    }
    *cut = names_cut;
    return size - names_room;
}

int root_left_put(void)
{
    bool cut;

    page->answer = root_left((char *)area, page->capacity, &cut);
    page->status = cut;
    return 0;
}

static int boot_again(void)
{
    int from = open(RANDOM "uuid", O_RDONLY | O_CLOEXEC);
    int to = open(BOOT_ID, O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
    char id[64];
    ssize_t size = from < 0 || to < 0 ? -1 : read(from, id, sizeof id);
    bool made = size > 0 && write(to, id, (size_t)size) == size;

    if (!made)
        fail(PCU_STEP_CHECK, "make another boot id");
    if (from >= 0)
        close(from);
    if (to >= 0)
        close(to);
    return made ? 0 : -1;
}

static int show_boot(void)
{
    static const char *const at = ROOT RANDOM "boot_id";

    if (mount(BOOT_ID, at, NULL, MS_BIND, NULL) != 0 ||
        mount(NULL, at, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) != 0)
        return fail(PCU_STEP_CHECK, "show another boot id");
    return 0;
}

int root_fresh(void)
{
    char path[512];
    size_t index;

    if (is_set_up && boot_again() != 0)
        return -1;

    for (index = 0; is_set_up && index < sizeof volatile_folders / sizeof *volatile_folders; index++) {
        snprintf(path, sizeof path, ROOT "%s", volatile_folders[index]);
        if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) != 0)
            return fail(PCU_STEP_CHECK, "empty %s", path);
    }
    return 0;
}

/* Each plan may be of another machine, whose name is the same. */
static int make_machine(void)
{
    static bool is_made;
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC), result = 0;

    if (!is_made && access("/modules/dummy.ko", F_OK) == 0)
        module_load("dummy", "numdummies=0");
    if (sethostname(MACHINE_NAME, strlen(MACHINE_NAME)) != 0 || machine_card(plan.mac) != 0)
        result = fail(PCU_STEP_CHECK, "make a network card with the address %s", plan.mac);
    else if (machine_files(ROOT, plan.machine_id, MACHINE, is_made) != 0)
        result = fail(PCU_STEP_CHECK, "show a machine-id");
    else if (machine_pids(proc, plan.first_pid) != 0)
        result = fail(PCU_STEP_CHECK, "choose pids");
    close(proc);
    is_made = true;
    return result;
}

static int mount_proc(void)
{
    if (over("proc", "/proc", 0, NULL) != 0)
        return -1;
    if (mount(ROOT "/proc/sys", ROOT "/proc/sys", NULL, MS_BIND, NULL) != 0 ||
        mount(NULL, ROOT "/proc/sys", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) != 0)
        return fail(PCU_STEP_CHECK, "make /proc/sys read-only");
    return 0;
}

static int mount_memory(void)
{
    char *const *visible = plan.visible;
    size_t index;

    for (index = 0; index < sizeof volatile_folders / sizeof *volatile_folders; index++)
        if (over("tmpfs", volatile_folders[index], 0, "mode=1777") != 0)
            return -1;
    for (; *visible != NULL; visible++)
        if (show(*visible, *visible) != 0)
            return -1;
    return *plan.tools != '\0' ? show(plan.tools, TOOLS) : 0;
}

int root_apart(void)
{
    return mount_proc() != 0 || show_boot() != 0 ? -1 : mount_memory();
}

int root_setup(void)
{
    if (is_set_up)
        return make_machine();
    if (mkdir(ROOT, 0755) != 0 && errno != EEXIST)
        return fail(PCU_STEP_CHECK, "mkdir " ROOT);
    if (over("hostfs", "", MS_RDONLY, plan.base) != 0 || confine_devices(ROOT "/dev") != 0 ||
        mount_proc() != 0 || over("sysfs", "/sys", MS_RDONLY, NULL) != 0)
        return -1;
    if (boot_again() != 0 || show_boot() != 0)
        return -1;
    if (*plan.program != '\0' && over("hostfs", PROGRAM, MS_RDONLY, plan.program) != 0)
        return -1;
    if (mkdir(ROOT "/dev/shm", 01777) != 0 && errno != EEXIST)
        return fail(PCU_STEP_CHECK, "mkdir /dev/shm");
    if (mount_memory() != 0)
        return -1;
    if (link_up("lo") != 0)
        return fail(PCU_STEP_CHECK, "bring the loopback device up");
    if (make_machine() != 0)
        return -1;
    if (mount(NULL, ROOT "/dev", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID, NULL) != 0)
        return fail(PCU_STEP_CHECK, "make /dev read-only");
    is_set_up = true;
    return 0;
}
