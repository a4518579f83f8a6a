/* SPDX-License-Identifier: Apache-2.0
 *
 * Sockets and named pipes of the host do not work through an overlay.
 *
 * connect(2) finds a socket, and open(2) a named pipe, by the inode that its name leads to.  An
 * overlay has inodes of its own: of a lower layer it passes on what is in files and folders, and no
 * more.  So a read-only overlay of the host's files is the view that a check is to have, whenever
 * the host makes a socket, under which name, and in which mount namespace.
 *
 * An overlay shows one file system, not what is mounted below.  So each mount below is put back over
 * it, and gets its own.  The kernel makes none of a folder below which there are mounts that an
 * ordinary user's namespace has inherited: what they hide would show.  There its folders get one
 * each; what lies in it directly keeps its inodes, as in the root itself.  Nor does it make one of
 * some file systems (vfat, overlays of overlays), nor for ordinary users before Linux 5.11.
 *
 * What may be written is the check's own, and stays as it is; so do /dev, /proc and /sys.
 */
#include "veil.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EMPTY "/dev/.empty" /* two layers, where none can be written */
#define LAYERS "lowerdir=.:" EMPTY ",userxattr"
#define MOUNTS_MAX 4096
#define CLONE_TREE (1 | O_CLOEXEC | 0x8000) /* OPEN_TREE_CLONE, AT_RECURSIVE */
#define FROM_DESCRIPTOR 4                   /* MOVE_MOUNT_F_EMPTY_PATH */

static char *mounts[MOUNTS_MAX];
static size_t mounted;

/* mountinfo has blanks and the like as three octal digits. */
static void unescape(char *text)
{
    char *to = text;

    for (; *text != '\0'; to++) {
        if (text[0] == '\\' && text[1] >= '0' && text[1] <= '3' && text[2] != '\0' &&
            text[3] != '\0') {
            *to = (char)((text[1] - '0') << 6 | (text[2] - '0') << 3 | (text[3] - '0'));
            text += 4;
        } else {
            *to = *text++;
        }
    }
    *to = '\0';
}

static int read_mounts(void)
{
    FILE *file = fopen("/proc/self/mountinfo", "re");
    char *line = NULL, path[PATH_MAX];
    size_t room = 0;

    if (file == NULL)
        return -1;
    while (getline(&line, &room, file) > 0 && mounted < MOUNTS_MAX) {
        if (sscanf(line, "%*d %*d %*s %*s %4095s", path) != 1)
            continue;
        unescape(path);
        if ((mounts[mounted] = strdup(path)) != NULL)
            mounted++;
    }
    free(line);
    fclose(file);
    return mounted < MOUNTS_MAX ? 0 : -1;
}

bool is_below(const char *path, const char *folder)
{
    size_t length = strlen(folder);

    return strncmp(path, folder, length) == 0 && path[length] == '/';
}

/* Whether it is a mount right below `folder`, with no other between them, and named for the first
 * time: of two on one place the upper one is found. */
static bool is_next_below(size_t which, const char *folder)
{
    size_t other;

    if (!is_below(mounts[which], folder))
        return false;
    for (other = 0; other < mounted; other++)
        if ((is_below(mounts[which], mounts[other]) && is_below(mounts[other], folder)) ||
            (other < which && strcmp(mounts[other], mounts[which]) == 0))
            return false;
    return true;
}

static int veil(const char *folder);

static int veil_folders_of(const char *folder)
{
    DIR *entries = opendir(folder);
    struct dirent *entry;
    struct stat status;
    char path[PATH_MAX];
    int result = 0;

    if (entries == NULL)
        return 0; /* what the guard may not look up its program may not either */
    while (result == 0 && (entry = readdir(entries)) != NULL) {
        int length = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            length >= (int)sizeof path || lstat(path, &status) != 0 || !S_ISDIR(status.st_mode))
            continue;
        result = veil(path);
    }
    closedir(entries);
    return result;
}

/* One overlay, and over it what was mounted below `folder`; 1 if the kernel makes none. */
static int veil_one(const char *folder, unsigned long flags)
{
    int trees[MOUNTS_MAX];
    size_t which;
    int result = 0;

    for (which = 0; which < mounted; which++) {
        trees[which] = -1;
        if (is_next_below(which, folder) &&
            (trees[which] = (int)syscall(SYS_open_tree, AT_FDCWD, mounts[which], CLONE_TREE)) < 0 &&
            errno != ENOENT && errno != EACCES)
            result = 1;
    }
    if (result == 0 && mount("host", ".", "overlay", flags, LAYERS) != 0)
        result = 1;
    for (which = 0; which < mounted; which++) {
        if (trees[which] < 0)
            continue;
        if (result == 0 && syscall(SYS_move_mount, trees[which], "", AT_FDCWD, mounts[which],
                                   FROM_DESCRIPTOR) != 0)
            result = -1;
        close(trees[which]);
    }
    return result;
}

static int veil(const char *folder)
{
    struct statvfs view;
    bool holds_mounts = false;
    size_t which;
    int made = 0;

    if (statvfs(folder, &view) != 0 || chdir(folder) != 0)
        return 0;
    for (which = 0; which < mounted; which++)
        holds_mounts |= is_below(mounts[which], folder);
    if ((view.f_flag & ST_RDONLY) != 0)
        made = veil_one(folder, MS_RDONLY | MS_NOSUID | MS_NODEV |
                                    ((view.f_flag & ST_NOEXEC) != 0 ? MS_NOEXEC : 0));
    if (made < 0 || !holds_mounts)
        return made < 0 ? -1 : 0;
    if (made > 0)
        return veil_folders_of(folder);
    for (which = 0; which < mounted; which++)
        if (is_next_below(which, folder) && veil(mounts[which]) != 0)
            return -1;
    return 0;
}

int veil_host(void)
{
    static const char *const kept[] = {"/dev", "/proc", "/sys"};
    struct dirent *entry;
    struct stat status;
    char here[PATH_MAX];
    DIR *root;
    int result = 0;

    if (getcwd(here, sizeof here) == NULL)
        return -1;
    if (mkdir(EMPTY, 0555) != 0 || read_mounts() != 0)
        return 0;
    if ((root = opendir("/")) == NULL)
        return -1;
    while (result == 0 && (entry = readdir(root)) != NULL) {
        char path[sizeof entry->d_name + 1] = "/";
        bool skipped = entry->d_name[0] == '.' && strspn(entry->d_name, ".") < 3;
        size_t which;

        strcat(path, entry->d_name);
        for (which = 0; which < sizeof kept / sizeof *kept; which++)
            skipped |= strcmp(path, kept[which]) == 0;
        if (!skipped && lstat(path, &status) == 0 && S_ISDIR(status.st_mode))
            result = veil(path);
    }
    closedir(root);
    return result == 0 ? chdir(here) : result;
}
