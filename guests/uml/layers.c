/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers of device-mapper, and an image in a host's file system (image.c), between the disks and
 * the file system, as the plan lists them.
 *
 * Which layers there are is not known here: a line of the plan is a device and its table, with
 * "@NAME" for the device called so.  They are made anew for each mount and removed after it, as a
 * system does at boot and at its end: none knows what another state of the disk held.
 */
#include "init.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/dm.h"

#define IMAGE "/dev/ubda" /* what is copied through layers that are new */
#define BLOCK (1u << 20)
#define APPEARS_MS 1000
#define SYNCED_MS 120000

static struct layer {
    char name[32];
    uint64_t sectors;
    char target[32];
    const char *table;
    const char *made_table; /* with its target; NULL: the same */
    const char *message;    /* for one that is made; NULL: none */
    bool wiped;             /* while it is made, before anything lies on it */
    const char *after;      /* after a cut; NULL: the same */
    char node[32];
} layers[ARGUMENTS_MAX];
static unsigned count, active;

/* A line of the plan; what follows a device belongs to it. */
static int parse(const char *text)
{
    unsigned long long sectors;
    int used = 0;

    if (*text == '+') {
        module_load(text + 1, "");
        return 0;
    }
    if (*text == '?' && count > 0) {
        layers[count - 1].made_table = text + 1;
        return 0;
    }
    if (*text == '!' && count > 0) {
        layers[count - 1].message = text + 1;
        return 0;
    }
    if (*text == '0' && count > 0) {
        layers[count - 1].wiped = true;
        return 0;
    }
    if (*text == '~' && count > 0) {
        layers[count - 1].after = text + 1;
        return 0;
    }
    if (sscanf(text, "%31s %llu %31s %n", layers[count].name, &sectors, layers[count].target,
               &used) == 3 && used > 0) {
        layers[count].sectors = sectors;
        layers[count++].table = text + used;
        return 0;
    }
    errno = EINVAL;
    return fail(PCU_STEP_CHECK, "layer %s", text);
}

int layers_configure(char *const list[])
{
    memset(layers, 0, sizeof layers);
    for (count = 0; *list != NULL; list++)
        if (parse(*list) != 0)
            return -1;
    return 0;
}

static const char *node_of(const char *name, const char *const disks[], unsigned upto)
{
    unsigned index;

    if (strncmp(name, "disk", 4) == 0 && isdigit((unsigned char)name[4])) {
        unsigned number = (unsigned)(name[4] - '0');

        for (index = 0; disks[index] != NULL; index++)
            if (index == number)
                return disks[index];
        return NULL;
    }
    for (index = 0; index < upto; index++)
        if (strcmp(layers[index].name, name) == 0)
            return layers[index].node;
    return NULL;
}

/* `table` with a node for each "@NAME". */
static int resolve(const char *table, const char *const disks[], unsigned upto, char *into,
                   size_t size)
{
    size_t used = 0;

    while (*table != '\0') {
        char name[32];
        const char *node;
        size_t length;

        if (*table != '@') {
            if (used + 1 >= size)
                break;
            into[used++] = *table++;
            continue;
        }
        length = strcspn(++table, " ");
        snprintf(name, sizeof name, "%.*s", (int)length, table);
        table += length;
        node = node_of(name, disks, upto);
        if (node == NULL || used + strlen(node) >= size) {
            errno = ENXIO;
            return fail(PCU_STEP_CHECK, "the device %s", name);
        }
        used += (size_t)sprintf(into + used, "%s", node);
    }
    into[used] = '\0';
    if (*table != '\0') {
        errno = E2BIG;
        return fail(PCU_STEP_CHECK, "the table of a layer");
    }
    return 0;
}

static int wait_node(const char *node)
{
    int waited;

    for (waited = 0; access(node, F_OK) != 0; waited++) {
        if (waited == APPEARS_MS)
            return fail(PCU_STEP_CHECK, "wait for %s", node);
        usleep(1000);
    }
    return 0;
}

static bool is_image(const struct layer *layer)
{
    return strcmp(layer->target, "file") == 0;
}

static bool is_zero(const char *bytes, size_t size)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0;
}

/* The device gets what `source` holds, or zeroes, to its last byte.  An image gets no zeroes: they
 * are there, and a sparse one is to stay so. */
static int fill(const struct layer *layer, const char *source)
{
    const bool sparse = is_image(layer);
    const size_t step = sparse ? BLOCK / 16 : BLOCK;
    uint64_t left = layer->sectors * 512;
    int from = source == NULL ? -1 : open(source, O_RDONLY | O_DIRECT | O_CLOEXEC);
    int onto = open(layer->node, O_RDWR | O_DIRECT | O_CLOEXEC);
    void *block = NULL;
    ssize_t size = 1;

    if ((source == NULL || from >= 0) && onto >= 0 && posix_memalign(&block, 4096, BLOCK) == 0)
        for (memset(block, 0, BLOCK); left > 0 && size > 0; left -= (uint64_t)size) {
            size = (ssize_t)(left < step ? left : step);
            if (source != NULL)
                size = read(from, block, (size_t)size);
            if (size > 0 && sparse && is_zero(block, (size_t)size))
                size = lseek(onto, size, SEEK_CUR) < 0 ? -1 : size;
            else if (size > 0)
                size = write(onto, block, (size_t)size) == size ? size : -1;
        }
    if (left > 0 || fsync(onto) != 0)
        fail(PCU_STEP_CHECK, "copy %s to %s", source == NULL ? "zeroes" : source, layer->node);
    free(block);
    if (from >= 0)
        close(from);
    if (onto >= 0)
        close(onto);
    return page->step == PCU_STEP_NONE ? 0 : -1;
}

static int activate(struct layer *layer, const char *const disks[], unsigned upto,
                    enum layers_are are)
{
    const char *table = are == LAYERS_CUT && layer->after != NULL ? layer->after : layer->table;
    char target[32], params[1024];
    int error;

    snprintf(target, sizeof target, "%s", layer->target);
    if (are == LAYERS_NEW && layer->made_table != NULL) {
        size_t length = strcspn(layer->made_table, " ");

        snprintf(target, sizeof target, "%.*s", (int)length, layer->made_table);
        table = layer->made_table + length + (layer->made_table[length] == ' ');
    }
    if (resolve(table, disks, upto, params, sizeof params) != 0)
        return -1;
    if (is_image(layer))
        return image_attach(params, layer->sectors * 512, are == LAYERS_NEW, layer->node,
                            sizeof layer->node);
    if (dm_create(layer->name) != 0)
        return fail(PCU_STEP_CHECK, "create %s", layer->name);
    snprintf(layer->node, sizeof layer->node, "/dev/dm-%u", dm_minor());
    if (dm_swap(layer->name, layer->sectors, target, params) == 0 &&
        (are != LAYERS_NEW || layer->message == NULL ||
         dm_message(layer->name, layer->message, NULL, 0) == 0))
        return wait_node(layer->node) != 0 ? -1
               : are == LAYERS_NEW && layer->wiped ? fill(layer, NULL)
                                                   : 0;
    error = errno;
    dm_remove(layer->name);
    errno = error;
    return fail(PCU_STEP_ACTIVATE, "activate %s (%s)", layer->name, target);
}

int layers_end(void)
{
    while (active > 0) {
        const struct layer *last = &layers[active - 1];

        if ((is_image(last) ? image_detach() : dm_remove(last->name)) != 0) {
            page->step = PCU_STEP_NONE; /* worse than whatever failed before */
            return fail(PCU_STEP_UMOUNT, "remove %s", last->name);
        }
        active--;
    }
    return 0;
}

/* Until each array has computed what goes with its data. */
static int wait_synced(void)
{
    char line[1024], action[16];
    unsigned long long done, all;
    unsigned index, waited = 0;

    for (index = 0; index < count; index++)
        while (strcmp(layers[index].target, "raid") == 0) {
            if (dm_status(layers[index].name, line, sizeof line) != 0 ||
                sscanf(line, "%*s %*s %*s %llu/%llu %15s", &done, &all, action) != 3)
                return fail(PCU_STEP_CHECK, "status of %s", layers[index].name);
            if (done == all && strcmp(action, "idle") == 0)
                break;
            if (waited++ == SYNCED_MS)
                return fail(PCU_STEP_CHECK, "wait for %s: %s", layers[index].name, line);
            usleep(1000);
        }
    return 0;
}

/* What was formatted on the host goes through the layers: each has then written all that it keeps
 * beside it. */
static int make_all(void)
{
    return fill(&layers[count - 1], IMAGE) != 0 ? -1 : wait_synced();
}

int layers_begin(const char *const disks[], enum layers_are are)
{
    for (active = 0; active < count; active++)
        if (activate(&layers[active], disks, active, are) != 0) {
            int error = errno;

            layers_end();
            errno = error;
            return -1;
        }
    return are == LAYERS_NEW ? make_all() : 0;
}

const char *layers_top(void)
{
    return count == 0 ? NULL : layers[count - 1].node;
}
