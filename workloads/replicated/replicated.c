/* SPDX-License-Identifier: Apache-2.0
 *
 * A replicated log of three nodes after Raft (Ongaro and Ousterhout, USENIX ATC 2014): a cluster.
 *
 *     replicated [fault=NAME] [epoch=on] [operations=200] [compact=40] setup|node|run|check DIR [NODE]
 *
 * Node a is the first member; operation 1 makes b and c members too, and each other one puts its
 * number.  What is acknowledged was synced by most members.  A node keeps five files: vote (with its
 * term), epoch, members, snapshot and log.  Nodes that start wait for each other; the terms and logs
 * with which they began say who stands for election first: a state comes to the same end each time,
 * however slow the host is, and in many states each node is the first in some.  The faults, each a
 * way to forget:
 *
 *     early      the leader acknowledges what it alone has
 *     unsynced   a follower says that it has an entry which it has not synced
 *     vote       the file vote is not synced
 *     snapshot   the log is cut off, and the snapshot that has its entries is not synced
 *     members    the file members is not synced
 *     epoch      with epoch=on: the file epoch is written out, and not synced.  It has the last entry
 *                that its node knows of, of the leader the last one that both others have; votes
 *                compare it, then lengths; and the leader leaves syncing its log to the two others.
 *                What is lost takes a leader that keeps it, and two others that do not.
 *
 * Nodes and client talk by datagrams of one kind; whoever gets no answer asks again.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../common/crc32c.h"
#include "kept.h"

#define PORT 7000
#define NODES 3
#define MEMBERS (1u << 24) /* a number from here on has the members in its lowest bits */
#define ALL 7u
#define QUIET_MS 1000 /* a node that hears of no leader so long stands for election, if it is its turn */
#define TURN_MS 1000
#define BEAT_MS 20
#define GREET_MS 2000
#define PATIENCE_MS 3000

enum kind { HELLO, VOTE, VOTED, YOURS, APPEND, HAS, SNAPSHOT, PUT, DONE, STATUS, IS };

struct entry {
    uint32_t term, number;
};

struct message {
    uint32_t kind, term, from, index, index_term, commit, epoch, members, value, count;
    struct entry entries[MOST];
};

static bool by_epoch;
static uint32_t operations = 200, compact = 40;
static struct sockaddr_in addresses[NODES];
static int line; /* the socket */

/* What a node keeps: entries[1..last], of which the first `base` are in the snapshot alone. */
static uint32_t me, term, voted, epoch, members, base, last, commit;
static struct entry entries[MOST + 1];
static int log_file;

/* What it knows as long as it runs. */
static bool leads, stands;
static uint32_t greeted, began, first, granted, refused, has[NODES], next[NODES], pending, trouble;
static uint64_t heard_ms, beat_ms;
static struct sockaddr_in client;

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void keep_vote(uint32_t in, uint32_t whom)
{
    term = in;
    voted = whom;
    keep("vote", (uint32_t[]){term, voted}, 2);
}

struct record {
    struct entry entry;
    uint32_t index, crc;
};

/* Writes entries from `from` on at the end of the log.  Who is a member says the log first. */
static void write_log(uint32_t from, bool synced)
{
    uint32_t index, named = members;

    for (index = from; index <= last; index++) {
        struct record one = {entries[index], index, 0};

        one.crc = pc_crc32c(0, &one, sizeof one - sizeof one.crc);
        if (write(log_file, &one, sizeof one) != (ssize_t)sizeof one)
            give_up("log");
        if (one.entry.number >= MEMBERS)
            named = one.entry.number & ALL;
    }
    if ((synced || named != members) && fdatasync(log_file) != 0)
        give_up("log");
    if (named != members) {
        members = named;
        keep("members", &members, 1);
    }
}

/* The log anew, without what the snapshot has. */
static void rewrite_log(void)
{
    int old = log_file;

    log_file = open(path_of("log.new"), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644);
    write_log(base + 1, true);
    if (rename(path_of("log.new"), path_of("log")) != 0)
        give_up("log");
    sync_folder();
    close(old);
}

static void keep_snapshot(uint32_t upto)
{
    uint32_t words[MOST + 2] = {upto, entries[upto].term}, index;

    for (index = 1; index <= upto; index++)
        words[index + 1] = entries[index].number;
    keep("snapshot", words, upto + 2);
    sync_folder();
    base = upto;
    rewrite_log();
}

static void load(void)
{
    uint32_t words[MOST + 2] = {0}, index;
    struct record one;
    off_t end = 0;

    if (find("vote", words, 2) == 2) {
        term = words[0];
        voted = words[1];
    }
    find("epoch", &epoch, 1);
    find("members", &members, 1);
    if (find("snapshot", words, MOST + 2) >= 2)
        base = words[0];
    for (index = 1; index <= base; index++)
        entries[index] = (struct entry){words[1], words[index + 1]};
    last = commit = base;
    log_file = open(path_of("log"), O_RDWR | O_CREAT | O_APPEND, 0644);
    while (pread(log_file, &one, sizeof one, end) == (ssize_t)sizeof one && one.index <= MOST &&
           one.crc == pc_crc32c(0, &one, sizeof one - sizeof one.crc)) {
        end += (off_t)sizeof one;
        if (one.index != last + 1)
            continue; /* the snapshot has it; or what was before is not there */
        entries[++last] = one.entry;
        if (one.entry.number >= MEMBERS)
            members = one.entry.number & ALL;
    }
    if (ftruncate(log_file, end) != 0)
        give_up("log");
    trouble = entries[last].term > term;
}

/* Messages. */

static void send_to(const struct sockaddr_in *to, struct message *message)
{
    message->from = me;
    message->term = term;
    sendto(line, message, sizeof *message - sizeof message->entries +
           message->count * sizeof *message->entries, 0, (const struct sockaddr *)to, sizeof *to);
}

static struct message out;

static struct message *fresh(enum kind kind)
{
    memset(&out, 0, sizeof out - sizeof out.entries);
    out.kind = kind;
    return &out;
}

static bool is_member(uint32_t node)
{
    return (members >> node & 1) != 0;
}

static bool is_most(uint32_t nodes)
{
    return __builtin_popcount(nodes & members) > __builtin_popcount(members) / 2;
}

static void send_entries(uint32_t to)
{
    struct message *said = fresh(next[to] <= base ? SNAPSHOT : APPEND);
    uint32_t before = next[to] <= base ? 0 : next[to] - 1;

    said->index = said->kind == SNAPSHOT ? base : before;
    said->index_term = entries[said->index].term;
    said->commit = commit;
    said->members = members;
    said->count = (said->kind == SNAPSHOT ? base : last) - before;
    memcpy(said->entries, entries + before + 1, said->count * sizeof *entries);
    send_to(&addresses[to], said);
}

static void greet(const struct sockaddr_in *to)
{
    fresh(HELLO)->value = greeted;
    out.index = began;
    send_to(to, &out);
}

static void send_all(void)
{
    uint32_t node;

    beat_ms = now_ms();
    for (node = 0; node < NODES; node++)
        if (node == me) {
            continue;
        } else if (greeted != ALL) {
            greet(&addresses[node]);
        } else if (is_member(node) && leads) {
            send_entries(node);
        } else if (is_member(node)) {
            fresh(VOTE)->index = last;
            out.index_term = entries[last].term;
            out.epoch = epoch;
            send_to(&addresses[node], &out);
        }
}

static void acknowledge(void)
{
    if (pending == 0 || pending > commit)
        return;
    fresh(DONE);
    out.value = 1;
    out.index = entries[pending].number;
    send_to(&client, &out);
    pending = 0;
}

static void now_epoch(uint32_t index)
{
    if (!by_epoch || epoch >= index)
        return;
    epoch = index;
    keep("epoch", &epoch, 1);
}

static void apply(uint32_t upto)
{
    if (upto > last)
        upto = last;
    if (upto > commit)
        commit = upto;
    if (leads)
        now_epoch(commit);
    acknowledge();
    if (commit >= base + compact)
        keep_snapshot(commit);
}

/* Commits what most members have; with epochs the leader's own counts for nothing. */
static void settle(void)
{
    uint32_t index, node, count, most = (uint32_t)__builtin_popcount(members) / 2 + 1;

    for (index = last; index > commit && entries[index].term == term; index--) {
        count = !by_epoch || members != ALL;
        for (node = 0; node < NODES; node++)
            count += node != me && is_member(node) && has[node] >= index;
        if (count >= most) {
            apply(index);
            break;
        }
    }
}

static void follow(uint32_t whose)
{
    stands = false;
    leads = whose == me;
    heard_ms = now_ms();
}

static void append(uint32_t number)
{
    if (last == MOST)
        give_up("a log of so many entries");
    entries[++last] = (struct entry){term, number};
    write_log(last, !by_epoch || members != ALL);
}

static void lead(void)
{
    uint32_t node;

    follow(me);
    append(0);
    for (node = 0; node < NODES; node++) {
        next[node] = last;
        has[node] = 0;
    }
    settle();
    send_all();
}

static void stand(void)
{
    keep_vote(term + 1, me);
    stands = true;
    granted = 1u << me;
    refused = 0;
    heard_ms = now_ms();
    send_all();
    if (members == granted)
        lead();
}

/* Whose turn it is now, at once: nobody is left to wait for. */
static void pass_on(uint32_t passed)
{
    fresh(YOURS)->value = passed;
    send_to(&addresses[(me + 1) % NODES], &out);
}

static void stand_or_pass(uint32_t passed)
{
    heard_ms = now_ms();
    if (is_member(me))
        stand();
    else if (passed < NODES)
        pass_on(passed + 1);
}

static void on_vote(const struct message *said, const struct sockaddr_in *from)
{
    uint64_t mine = by_epoch ? epoch : entries[last].term;
    uint64_t theirs = by_epoch ? said->epoch : said->index_term;
    bool grants = said->term == term && (voted == NODES || voted == said->from) &&
                  (theirs << 32 | said->index) >= (mine << 32 | last);

    if (grants && voted == NODES)
        keep_vote(term, said->from);
    if (grants || heard_ms == 0)
        heard_ms = now_ms();
    fresh(VOTED);
    out.value = grants;
    send_to(from, &out);
}

static void on_append(const struct message *said, const struct sockaddr_in *from)
{
    uint32_t index = said->index, at;

    follow(said->from);
    fresh(HAS);
    if (index > last || index < base || entries[index].term != said->index_term) {
        out.value = index > last ? last + 1 : index > base ? index : base + 1; /* from there, please */
        send_to(from, &out);
        return;
    }
    for (at = 0; at < said->count && index + at + 1 <= last &&
                 entries[index + at + 1].term == said->entries[at].term; at++)
        ;
    if (at < said->count && index + at < commit) {
        trouble = 2; /* what it has committed is to go */
        return;
    }
    if (at < said->count) {
        bool conflict = index + at < last;

        last = index + said->count;
        memcpy(entries + index + at + 1, said->entries + at, (said->count - at) * sizeof *entries);
        if (conflict)
            rewrite_log();
        else
            write_log(index + at + 1, !forgets("unsynced"));
    }
    now_epoch(index + said->count);
    fresh(HAS)->index = index + said->count;
    send_to(from, &out);
    apply(said->commit < index + said->count ? said->commit : index + said->count);
}

static void on_snapshot(const struct message *said, const struct sockaddr_in *from)
{
    follow(said->from);
    if (said->index > commit) {
        memcpy(entries + 1, said->entries, said->count * sizeof *entries);
        last = commit = said->index;
        members = said->members;
        keep("members", &members, 1);
        keep_snapshot(said->index);
    }
    fresh(HAS)->index = said->index;
    send_to(from, &out);
}

static void on_put(const struct message *said, const struct sockaddr_in *from)
{
    uint32_t index = last;

    if (!leads)
        return;
    while (index > 0 && entries[index].number != said->value)
        index--; /* asked again */
    client = *from;
    pending = index > 0 ? index : last + 1;
    if (index == 0)
        append(said->value);
    if (forgets("early"))
        apply(last);
    settle();
    acknowledge();
    send_all();
}

static void on_status(const struct sockaddr_in *from)
{
    fresh(IS);
    out.value = leads && commit == last;
    out.commit = commit;
    out.members = members;
    out.epoch = trouble;
    out.count = commit;
    memcpy(out.entries, entries + 1, commit * sizeof *entries);
    send_to(from, &out);
}

static void take(const struct message *said, const struct sockaddr_in *from)
{
    if (said->kind <= SNAPSHOT && said->term > term) {
        leads = stands = false;
        keep_vote(said->term, NODES);
    }
    if (said->kind == HELLO) {
        greeted |= 1u << said->from;
        first = said->index > first ? said->index : first;
        if ((said->value >> me & 1) == 0)
            greet(from);
    } else if (said->kind == VOTE) {
        on_vote(said, from);
    } else if (said->kind == VOTED && stands && said->term == term) {
        *(said->value ? &granted : &refused) |= 1u << said->from;
        if (is_most(granted))
            lead();
        else if (!is_most(members & ~refused))
            pass_on(1);
    } else if (said->kind == YOURS && !leads && said->term == term) {
        stand_or_pass(said->value);
    } else if (said->kind == APPEND && said->term == term) {
        on_append(said, from);
    } else if (said->kind == SNAPSHOT && said->term == term) {
        on_snapshot(said, from);
    } else if (said->kind == HAS && leads && said->term == term) {
        next[said->from] = said->value != 0 ? said->value : said->index + 1;
        if (next[said->from] > last + 1)
            next[said->from] = last + 1;
        if (said->value == 0 && said->index > has[said->from])
            has[said->from] = said->index;
        settle();
        if (next[said->from] <= last && said->value != 0)
            send_entries(said->from);
    } else if (said->kind == PUT) {
        on_put(said, from);
    } else if (said->kind == STATUS) {
        on_status(from);
    }
}

static bool hear(struct message *said, struct sockaddr_in *from, int within_ms)
{
    struct pollfd polled = {line, POLLIN, 0};
    socklen_t size = sizeof *from;

    return poll(&polled, 1, within_ms) > 0 &&
           recvfrom(line, said, sizeof *said, 0, (struct sockaddr *)from, &size) > 0;
}

_Noreturn static void serve(void)
{
    static struct message said;
    struct sockaddr_in from;
    uint64_t begun = now_ms();

    load();
    greeted = 1u << me;
    began = first = term + last;
    for (;;) {
        uint64_t quiet;

        if (hear(&said, &from, 5))
            take(&said, &from);
        if (now_ms() - begun > GREET_MS)
            greeted = ALL;
        if (greeted == ALL && heard_ms == 0) /* of nobody who stands: the first one may at once */
            heard_ms = now_ms() - QUIET_MS;
        quiet = heard_ms == 0 ? 0 : now_ms() - heard_ms;
        if (!leads && greeted == ALL && quiet >= QUIET_MS + (me + NODES - first % NODES) % NODES * TURN_MS)
            stand_or_pass(0);
        else if ((leads || stands || greeted != ALL) && now_ms() - beat_ms > BEAT_MS)
            send_all();
    }
}

/* The client. */

static void say(const char *format, uint32_t number)
{
    char text[64];
    int size = snprintf(text, sizeof text, format, number);

    if (write(atoi(getenv("POWERCUT_FD")), text, (size_t)size) != size)
        exit(1);
}

static bool put(uint32_t number)
{
    static struct message said;
    uint64_t end = now_ms() + PATIENCE_MS;
    struct sockaddr_in from;
    uint32_t node;

    while (now_ms() < end) {
        for (node = 0; node < NODES; node++) {
            fresh(PUT)->value = number;
            send_to(&addresses[node], &out);
        }
        while (hear(&said, &from, 50))
            if (said.kind == DONE && said.index == number)
                return true;
    }
    return false;
}

static void run(void)
{
    uint32_t number;

    say("ready\n", 0);
    for (number = 1; number <= operations; number++) {
        bool done;

        say("? %u\n", number);
        done = number > 1 ? put(number) : put(MEMBERS | 3u) && put(MEMBERS | ALL);
        say(done ? "+ %u\n" : "- %u\n", number);
    }
}

static bool agree(const struct message *one, const struct message *other)
{
    uint32_t index = 0;

    while (index < one->count && one->entries[index].number == other->entries[index].number)
        index++;
    return one->commit == other->commit && one->members == other->members && index == one->count;
}

/* Asks until one node leads and all of its members say the same. */
static int check(void)
{
    static struct message is[NODES], said;
    uint64_t end = now_ms() + PATIENCE_MS;
    struct sockaddr_in from;
    uint32_t node, seen, leader = NODES, index;

    for (; now_ms() < end; usleep(5000)) {
        for (node = seen = 0; node < NODES; node++) {
            fresh(STATUS);
            send_to(&addresses[node], &out);
        }
        while (seen != ALL && hear(&said, &from, 50))
            if (said.kind == IS && said.from < NODES) {
                is[said.from] = said;
                seen |= 1u << said.from;
            }
        for (node = 0, leader = NODES; node < NODES && seen == ALL; node++)
            if (is[node].value)
                leader = leader == NODES ? node : NODES + 1;
        for (node = 0; node < NODES && leader < NODES; node++)
            if ((is[leader].members >> node & 1) != 0 && !agree(&is[leader], &is[node]))
                leader = NODES + 1;
        if (leader < NODES)
            break;
    }
    for (node = 0; node < NODES; node++)
        if (is[node].epoch)
            say(is[node].epoch == 1 ? "bad node %u: its log has a later term than its vote\n"
                                    : "bad node %u: its leader takes back what is committed\n", node);
    if (leader == NODES) {
        fprintf(stderr, "no leader in time\n");
        return 3;
    }
    if (leader > NODES) {
        say("bad the nodes do not agree after %u ms\n", PATIENCE_MS);
        return 0;
    }
    if (is[leader].members == ALL)
        say("= %u\n", 1);
    for (index = 0; index < is[leader].count; index++)
        if (is[leader].entries[index].number != 0 && is[leader].entries[index].number < MEMBERS)
            say("= %u\n", is[leader].entries[index].number);
    return 0;
}

static void set_up(void)
{
    members = me == 0;
    keep_vote(0, NODES);
    keep("epoch", &epoch, 1);
    keep("members", &members, 1);
    sync_folder();
}

static void listen_at(const char *address)
{
    struct sockaddr_in here = {.sin_family = AF_INET};

    line = socket(AF_INET, SOCK_DGRAM, 0);
    if (address != NULL) {
        here.sin_port = htons(PORT);
        inet_pton(AF_INET, address, &here.sin_addr);
        if (bind(line, (struct sockaddr *)&here, sizeof here) != 0)
            give_up("bind");
    }
}

static bool setting(const char *word)
{
    const char *value = strchr(word, '=');

    if (value == NULL || strchr(word, '/') != NULL)
        return false;
    if (strncmp(word, "fault=", 6) == 0)
        fault = value + 1;
    else if (strncmp(word, "epoch=", 6) == 0)
        by_epoch = strcmp(value, "=on") == 0;
    else if (strncmp(word, "operations=", 11) == 0)
        operations = (uint32_t)atoi(value + 1);
    else
        compact = (uint32_t)atoi(value + 1);
    return true;
}

int main(int count, char *words[])
{
    char all[512], *one, *rest = all;
    uint32_t node;

    while (count > 1 && setting(words[1]))
        words++, count--;
    if (count < 3)
        return 2;
    snprintf(folder, sizeof folder, "%s", words[2]);
    snprintf(all, sizeof all, "%s", getenv("POWERCUT_NODES"));
    for (node = 0; node < NODES && (one = strsep(&rest, " ")) != NULL; node++) {
        addresses[node] = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(PORT)};
        inet_pton(AF_INET, strchr(one, '=') + 1, &addresses[node].sin_addr);
    }
    me = count > 3 ? (uint32_t)(words[3][0] - 'a') : NODES;
    listen_at(strcmp(words[1], "node") == 0 ? getenv("POWERCUT_ADDRESS") : NULL);
    if (strcmp(words[1], "setup") == 0)
        fault = "none", set_up();
    else if (strcmp(words[1], "node") == 0)
        serve();
    else if (strcmp(words[1], "run") == 0)
        run();
    else
        return check();
    return 0;
}
