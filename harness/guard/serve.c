/* SPDX-License-Identifier: Apache-2.0
 *
 * A server of root's on the host, which is no user of the host's: a capture disk, a hypervisor.
 *
 * It sees the host's files as they are, read-only but for devices, and may read what all may read.
 * Folders that it has (--own) are shown as its own by an idmapped mount (users.c), at their own
 * path, which all processes use for them; what it makes there is root's on the disk.  Where such a path leads
 * through a folder that only root may enter, an empty folder takes that one's place, with nothing
 * in it but what the server was given: nothing else of it could be seen anyway.
 */
#include "users.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RECURSIVE 0x8000
#define FROM_DESCRIPTOR 4 /* MOVE_MOUNT_F_EMPTY_PATH */
#define FOR_ALL 0755
#define ASIDE "/tmp" /* where something lies for a moment, in a mount namespace of this process */

/* Makes a way to `path`, whose last part is a folder if `folder`, that all may go. */
static int make_way(const char *path, int folder)
{
    char part[PATH_MAX];
    struct stat status;
    size_t length;

    if (path[0] != '/' || strlen(path) >= sizeof part) {
        errno = EINVAL;
        return -1;
    }
    for (length = 1; path[length] != '\0'; length++)
        if (path[length] == '/') {
            memcpy(part, path, length);
            part[length] = '\0';
            if (mkdir(part, FOR_ALL) != 0 && errno != EEXIST && errno != EROFS)
                return -1;
            if (stat(part, &status) != 0)
                return -1;
            if ((status.st_mode & S_IXOTH) == 0 &&
                mount("none", part, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755") != 0)
                return -1;
        }
    if (stat(path, &status) == 0)
        return 0;
    if (folder)
        return mkdir(path, FOR_ALL);
    return mknod(path, S_IFREG | 0600, 0);
}

static int show(int tree, const char *path)
{
    struct stat status;

    if (fstat(tree, &status) != 0 || make_way(path, S_ISDIR(status.st_mode)) != 0)
        return -1;
    return (int)syscall(SYS_move_mount, tree, "", AT_FDCWD, path, FROM_DESCRIPTOR);
}

int users_device(const char *path)
{
    struct stat status;
    int result;

    if (stat(path, &status) != 0 || mount("none", ASIDE, "tmpfs", MS_NOSUID, "mode=0700") != 0)
        return -1;
    umask(0);
    result = mknod(ASIDE "/device", (status.st_mode & S_IFMT) | 0666, status.st_rdev) == 0
                 ? mount(ASIDE "/device", path, NULL, MS_BIND, NULL)
                 : -1;
    umask(022);
    return umount2(ASIDE, MNT_DETACH) != 0 ? -1 : result;
}

int users_serve(int users, const struct given *given, size_t count)
{
    struct mount_attr fixed = {.attr_set = MOUNT_ATTR_RDONLY};
    int trees[USERS_GIVEN_MAX], alone;
    size_t index;

    if (count > USERS_GIVEN_MAX) {
        errno = E2BIG;
        return -1;
    }
    for (index = 0; index < count; index++) /* before anything lies over them */
        if ((trees[index] = users_tree(users, given[index].path, given[index].shown, &alone)) < 0)
            return -1;
    if (syscall(SYS_mount_setattr, AT_FDCWD, "/", RECURSIVE, &fixed, sizeof fixed) != 0)
        return -1;
    for (index = 0; index < count; index++) {
        if (show(trees[index], given[index].path) != 0)
            return -1;
        close(trees[index]);
    }
    return 0;
}
