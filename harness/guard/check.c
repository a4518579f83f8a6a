/* SPDX-License-Identifier: Apache-2.0
 *
 * check-guard [--become USER] [--unlimited] [--whole] [--processes MOST] [--bare] [--apart] [--own PATH]...
 *             [--map USER:GROUP] [--cover SOCKET]... [--mac ADDRESS] [--machine-id ID] [--first-pid PID]
 *             -- PROGRAM ARG...:
 * hides sockets of the host, and runs PROGRAM without what it is not to have.
 * check-guard --serve [--rings] [--device PATH] [--own PATH]... [--show PATH]... -- PROGRAM ARG...:
 * becomes PROGRAM, a server on the host whose users are no users of the host (serve.c); it may read
 * what lies at a PATH that is shown, open a device, and use io_uring if it has rings.
 * check-guard --states FOLDER ...: runs PROGRAM for one state of a captured folder after the other, each in
 * namespaces of its own (states.c).
 * check-guard --tries PATH...: whether each PATH could be PROGRAM's with --apart.
 * check-guard --alone [--sockets] PROGRAM ARG...: the system calls of a check behind Landlock, which
 * has no namespaces; no sockets, to which Landlock leaves all ways, but with --sockets.
 *
 * It runs in the sandbox of a check (bubblewrap), whose view of the host's files keeps no process
 * from the sockets among them: connect(2) asks for the right to write to the socket, and a read-only
 * mount takes that from files and folders alone.  So overlays are mounted over that view (veil.c),
 * and /dev/null over each SOCKET, should it lie where no overlay can be.  That is in a mount
 * namespace of the guard's own: in that of an ordinary user's sandbox nobody may mount.
 *
 * Sockets of the host come and go.  What is gone, or is no socket any more, needs no cover; a cover
 * goes with the name that it lies over.
 *
 * CAP_SYS_ADMIN, CAP_SETPCAP, CAP_NET_ADMIN and CAP_SETFCAP are for the guard: PROGRAM gets what else the guard has, and nothing
 * as the USER that it becomes, who is in the group of the same number alone.  In the namespace of an
 * ordinary user, who is 0 there, that user is mapped to USER and GROUP for PROGRAM.  With --apart its users
 * are no users of the host (users.c), and it may have what lies at each PATH as these may.  System
 * calls that no check needs are refused (limits.c), but for an `--unlimited` PROGRAM.  The pids of its
 * namespace of them, which is to be its own, end MOST after where they begin.  A `--bare` sandbox shows nothing of
 * the host that is to be veiled.  Elsewhere /dev is read-only, as what is written there is in no state.
 *
 * PROGRAM's machine has one network card with an ADDRESS, that ID and the name that bubblewrap gives it,
 * and its pids begin at PID (same_machine.c).  The network and the pids are to be its own.
 *
 * The guard is PID 1 of the sandbox.  Were there another one it would be outside of the guard's mount
 * namespace, and a program of the same user could trace it there; the guard cannot be traced.  It ends
 * when PROGRAM does, and what that has left with it.  But a `--whole` PROGRAM that ends with status 0,
 * as the parent of a daemon does, has not ended before all that it has left.
 *
 * Exit status: that of PROGRAM, 128 + N after signal N, 125 if it was not started.
 */
#include "limits.h"
#include "same_machine.h"
#include "states.h"
#include "users.h"
#include "veil.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAILED 125
#define GUARDS (1u << CAP_SYS_ADMIN | 1u << CAP_SETPCAP | 1u << CAP_NET_ADMIN | 1u << CAP_SETFCAP)
#define KEPT "/dev/.machine"

/* The words before "--". */
static struct {
    bool unlimited, whole, bare, apart, becomes, maps, serves, rings;
    uid_t user;
    gid_t group;
    const char *processes, *device, *mac, *machine_id;
    int first_pid;
    struct given given[USERS_GIVEN_MAX];
    size_t count;
    int users;
    struct states states;
} wanted = {.users = -1};

/* What comes of a state, in memory that the guard shares with its child; NULL in all others. */
static struct {
    bool ended;
    int status;
    char why_not[PATH_MAX];
} *told;

static _Noreturn void die(const char *what)
{
    if (told != NULL) {
        snprintf(told->why_not, sizeof told->why_not, "%s: %s", what, strerror(errno));
        _exit(FAILED);
    }
    fprintf(stderr, "check-guard: %s: %s\n", what, strerror(errno));
    exit(FAILED);
}

static void cover(const char *path)
{
    int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat status;
    char name[32];

    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == EACCES))
        return; /* what the guard may not look up its program may not either */
    if (fd < 0 || fstat(fd, &status) != 0)
        die(path);
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    if (S_ISSOCK(status.st_mode) && mount("/dev/null", name, NULL, MS_BIND, NULL) != 0 &&
        errno != ENOENT) /* removed since it was opened */
        die(path);
    close(fd);
}

/* Linux 6.14 and newer count the processes of each namespace for themselves; of an older one the
 * setting is the whole host's.  It is the highest pid.  RLIMIT_NPROC does not hold for the host's root, but for a PROGRAM with
 * users apart. */
static void limit_processes(int proc, int most)
{
    struct utsname kernel;
    int major, minor, setting;

    if (uname(&kernel) != 0 || sscanf(kernel.release, "%d.%d", &major, &minor) != 2 || major < 6 ||
        (major == 6 && minor < 14))
        return;
    if ((setting = openat(proc, "sys/kernel/pid_max", O_WRONLY | O_CLOEXEC)) < 0 ||
        dprintf(setting, "%d", most) < 0)
        die("cannot limit processes");
    close(setting);
}

static void become(uid_t user)
{
    if (setgroups(0, NULL) != 0 || setresgid(user, user, user) != 0 ||
        setresuid(user, user, user) != 0)
        die("cannot become another user");
}

static void write_own(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        die(path);
    close(fd);
}

/* bubblewrap would do so before the guard runs, which could then make neither a network card nor pids:
 * these are of the namespace in which the user is 0.  Who maps that needs CAP_SETFCAP (Linux 5.12). */
static void map_user(void)
{
    char user[32], group[32];

    snprintf(user, sizeof user, "%u 0 1\n", wanted.user);
    snprintf(group, sizeof group, "%u 0 1\n", wanted.group);
    if (unshare(CLONE_NEWUSER) != 0)
        die("cannot make a namespace of users");
    write_own("/proc/self/uid_map", user);
    write_own("/proc/self/setgroups", "deny");
    write_own("/proc/self/gid_map", group);
}

/* Leaves what the guard has but for its own, or nothing, and no way to more: of root, inheritable
 * ones come back at exec.  Goes apart, and becomes `user`, on the way. */
static void drop_capabilities(uid_t user, bool all, bool apart)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct set[2];
    int capability, has;

    if (syscall(SYS_capget, &header, set) != 0)
        die("cannot read capabilities");
    set[0].permitted &= all ? 0 : ~GUARDS;
    set[1].permitted = 0;
    if (apart && setns(wanted.users, CLONE_NEWUSER) != 0) /* where it has all of them at first */
        die("cannot enter its namespace of users");
    if (wanted.maps && !all)
        map_user();
    for (capability = 0; (has = prctl(PR_CAPBSET_READ, capability, 0, 0, 0)) >= 0; capability++)
        if ((set[capability / 32].permitted >> capability % 32 & 1) == 0 && has != 0 &&
            prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0)
            die("cannot drop a capability");
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0)
        die("cannot drop ambient capabilities");
    if (user != 0 || apart)
        become(user);
    for (capability = 0; capability < 2; capability++) {
        set[capability].effective &= set[capability].permitted;
        set[capability].inheritable = 0;
    }
    if (syscall(SYS_capset, &header, set) != 0)
        die("cannot drop capabilities");
}

/* What has lost its parent is PID 1's to wait for. */
static int reap(pid_t child)
{
    pid_t ended;
    int status;

    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
        die("cannot be kept from being traced");
    drop_capabilities(0, true, false);
    close_range(STDERR_FILENO + 1, ~0u, 0);
    while ((ended = wait(&status)) != child)
        if (ended < 0 && errno != EINTR)
            die("cannot wait");
    while (wanted.whole && status == 0 && (wait(NULL) > 0 || errno == EINTR))
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* What follows the options. */
static char **take_options(char *argv[])
{
    for (argv++; argv[0] != NULL && strcmp(argv[0], "--") != 0; argv++) {
        if (strcmp(argv[0], "--unlimited") == 0)
            wanted.unlimited = true;
        else if (strcmp(argv[0], "--whole") == 0)
            wanted.whole = true;
        else if (strcmp(argv[0], "--bare") == 0)
            wanted.bare = true;
        else if (strcmp(argv[0], "--apart") == 0)
            wanted.apart = true;
        else if (strcmp(argv[0], "--rings") == 0)
            wanted.rings = true;
        else if (argv[1] == NULL)
            return NULL;
        else if (strcmp(argv[0], "--become") == 0)
            wanted.becomes = true, wanted.user = (uid_t)strtoul(*++argv, NULL, 10);
        else if (strcmp(argv[0], "--map") == 0)
            wanted.maps = sscanf(*++argv, "%u:%u", &wanted.user, &wanted.group) == 2;
        else if (strcmp(argv[0], "--processes") == 0)
            wanted.processes = *++argv;
        else if (strcmp(argv[0], "--device") == 0)
            wanted.device = *++argv;
        else if (strcmp(argv[0], "--mac") == 0)
            wanted.mac = *++argv;
        else if (strcmp(argv[0], "--machine-id") == 0)
            wanted.machine_id = *++argv;
        else if (strcmp(argv[0], "--first-pid") == 0)
            wanted.first_pid = atoi(*++argv);
        else if (strcmp(argv[0], "--states") == 0)
            wanted.states.folder = *++argv;
        else if (strcmp(argv[0], "--room") == 0)
            wanted.states.room = *++argv;
        else if (strcmp(argv[0], "--empty") == 0 && wanted.states.empties < STATES_PATHS_MAX)
            wanted.states.empty[wanted.states.empties++] = *++argv;
        else if (strcmp(argv[0], "--over") == 0 && wanted.states.overs < STATES_PATHS_MAX)
            wanted.states.over[wanted.states.overs++] = *++argv;
        else if ((strcmp(argv[0], "--own") == 0 || strcmp(argv[0], "--show") == 0) &&
                 wanted.count < USERS_GIVEN_MAX) {
            wanted.given[wanted.count].shown = strcmp(argv[0], "--show") == 0;
            wanted.given[wanted.count++].path = argv[1];
            argv++;
        } else if (strcmp(argv[0], "--cover") == 0)
            argv++; /* once there are overlays */
        else
            return NULL;
    }
    return argv[0] != NULL && argv[1] != NULL ? argv + 1 : NULL;
}

/* What was forbidden of a mount stays so, or the kernel refuses. */
static int make_read_only(const char *path)
{
    struct statvfs is;

    if (statvfs(path, &is) != 0)
        return -1;
    return mount(NULL, path, NULL,
                 MS_REMOUNT | MS_BIND | MS_RDONLY | (is.f_flag & (ST_NOSUID | ST_NODEV | ST_NOEXEC)),
                 NULL);
}

/* Whether it lies below what has its owners already, with all that is mounted there: a mount gets them
 * once.  What powercut does not know of may be mounted there at any time. */
static bool is_owned(size_t index)
{
    const char *path = wanted.given[index].path;
    size_t earlier;

    for (earlier = 0; earlier < index; earlier++)
        if (wanted.given[earlier].whole && (strcmp(path, wanted.given[earlier].path) == 0 ||
                                            is_below(path, wanted.given[earlier].path)))
            return true;
    return false;
}

/* The order matters: an overlay shows the owners of what lies below when it is made. */
static void make_view(char *argv[], char *const *program)
{
    char here[PATH_MAX];
    size_t index;
    int alone;

    if (wanted.bare && !wanted.apart)
        return;
    if (getcwd(here, sizeof here) == NULL || unshare(CLONE_NEWNS) != 0)
        die("cannot make a mount namespace");
    if (wanted.apart && (wanted.users = users_make()) < 0)
        die("cannot make a namespace of users");
    for (index = 0; index < wanted.count; index++) {
        if (is_owned(index))
            continue;
        if ((alone = users_own(wanted.users, wanted.given[index].path, false)) < 0)
            die(wanted.given[index].path);
        wanted.given[index].whole = !alone;
    }
    if (chdir(here) != 0) /* what lies there now */
        die(here);
    if (!wanted.bare && veil_host() != 0)
        die("cannot put back what is mounted below an overlay");
    for (argv++; argv + 1 < program; argv++)
        if (strcmp(argv[0], "--cover") == 0)
            cover(*++argv);
    if (wanted.machine_id != NULL && machine_files("", wanted.machine_id, KEPT, false) != 0)
        die("cannot show its machine-id");
    if (!wanted.bare && make_read_only("/dev") != 0)
        die("cannot make /dev read-only");
}

/* The settings of `proc` are mounted nowhere: in the sandbox's own they are read-only. */
static void make_machine(int proc)
{
    if (wanted.processes != NULL)
        limit_processes(proc, wanted.first_pid + atoi(wanted.processes));
    if (wanted.mac != NULL && machine_card(wanted.mac) != 0)
        die("cannot make a network card");
    if (wanted.first_pid != 0 && machine_pids(proc, wanted.first_pid) != 0)
        die("cannot choose pids");
}

static void limit_program(void)
{
    drop_capabilities(wanted.maps ? 0 : wanted.user, wanted.becomes, wanted.apart);
    if (!wanted.unlimited && limit_check() != 0)
        die("cannot be limited");
}

/* As PID 1 of the namespaces of a state.  What cannot be run is the check's fault, as a shell tells it. */
static _Noreturn void check_state(const struct state *state, char *const program[])
{
    int proc = open_proc();
    pid_t child;

    if (proc < 0 || setsid() < 0 || machine_loopback() != 0)
        die("cannot make a machine");
    wanted.first_pid = state->first_pid;
    make_machine(proc); /* before its settings are read-only */
    if (states_view(&wanted.states, state->name, proc) != 0)
        die("cannot show the state");
    if (states_descriptors(state) != 0)
        die("cannot pass on descriptors");
    if ((child = fork()) < 0)
        die("cannot fork");
    if (child == 0) {
        limit_program();
        execvp(program[0], program);
        fprintf(stderr, "%s: %s\n", program[0], strerror(errno));
        _exit(errno == ENOENT ? 127 : 126);
    }
    told->status = reap(child);
    told->ended = true;
    _exit(0);
}

/* One state, and what came of it in `told`; -1 if nobody wants to know any more. */
static int run_state(const struct state *state, char *const program[])
{
    static const unsigned long apart = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWNET;
    int pidfd, ended, child;

    memset(told, 0, sizeof *told);
    child = (int)syscall(SYS_clone, apart | CLONE_PIDFD | SIGCHLD, NULL, &pidfd, NULL, 0);
    if (child == 0)
        check_state(state, program);
    close(state->lines);
    close(state->words);
    if (child < 0) {
        snprintf(told->why_not, sizeof told->why_not, "no namespaces: %s", strerror(errno));
        return 0;
    }
    ended = states_ended(pidfd);
    close(pidfd);
    if (ended == 0 && waitpid(child, NULL, 0) == child && !told->ended && told->why_not[0] == '\0')
        strcpy(told->why_not, "its sandbox was killed");
    return ended;
}

/* Its namespace of users is no descriptor of those that a check gets. */
static int serve_states(char *const program[])
{
    struct state state;
    char status[16];

    if (wanted.users >= 0 && (wanted.users = fcntl(wanted.users, F_DUPFD_CLOEXEC, 16)) < 0)
        die("cannot keep its namespace of users");
    if (states_begin(&wanted.states) != 0)
        die("cannot tell what is mounted");
    told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (told == MAP_FAILED)
        return FAILED;
    while (states_next(&wanted.states, &state) == 0 && run_state(&state, program) == 0) {
        snprintf(status, sizeof status, "%d", told->status);
        states_answer(told->why_not[0] != '\0' ? told->why_not : status);
    }
    return 0;
}

static int try_paths(char *paths[])
{
    int users = unshare(CLONE_NEWNS) == 0 ? users_make() : -1;

    if (users < 0)
        die("there are no users apart");
    for (; *paths != NULL; paths++)
        if (users_own(users, *paths, true) < 0)
            die(*paths);
    return 0;
}

/* Of a sandbox that has no namespaces: in that process, which somebody else waits for. */
static int limit_alone(char *program[])
{
    bool sockets = strcmp(*program, "--sockets") == 0;

    program += sockets;
    if (limit_check() != 0 || (!sockets && limit_sockets() != 0))
        die("cannot be limited");
    execvp(program[0], program);
    die(program[0]);
}

/* It is this process that becomes the program, so that it stays its parent's child, and it still ends
 * with that one: to become another user is to forget PR_SET_PDEATHSIG (prctl(2)). */
static int serve(char *const program[])
{
    pid_t parent = getppid();
    int sign;

    if (prctl(PR_GET_PDEATHSIG, &sign, 0, 0, 0) != 0 || unshare(CLONE_NEWNS) != 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) != 0 || /* nothing comes out on the host */
        (wanted.users = users_make()) < 0)
        die("there are no users apart");
    if (wanted.device != NULL && users_device(wanted.device) != 0)
        die(wanted.device);
    if (users_serve(wanted.users, wanted.given, wanted.count) != 0)
        die("cannot show what it is given");
    drop_capabilities(0, true, true);
    if (prctl(PR_SET_PDEATHSIG, sign, 0, 0, 0) != 0 || (sign != 0 && getppid() != parent))
        die("its parent has ended");
    if (limit_server(wanted.rings) != 0)
        die("cannot be limited");
    execvp(program[0], program);
    die(program[0]);
}

int main(int argc, char *argv[])
{
    char **program;
    pid_t child;

    if (argc > 1 && strcmp(argv[1], "--tries") == 0)
        return try_paths(argv + 2);
    if (argc > 2 && strcmp(argv[1], "--alone") == 0)
        return limit_alone(argv + 2);
    wanted.serves = argc > 1 && strcmp(argv[1], "--serve") == 0;
    argv += wanted.serves;
    if ((program = take_options(argv)) == NULL) {
        fprintf(stderr, "usage: check-guard [--become USER] [--unlimited] [--whole] "
                        "[--processes MOST] [--bare] [--apart] [--own PATH]... "
                        "[--map USER:GROUP] [--cover SOCKET]... "
                        "[--mac ADDRESS] [--machine-id ID] [--first-pid PID] -- PROGRAM ARG...\n"
                        "       check-guard --serve [--rings] [--device PATH] [--own PATH]... [--show PATH]... "
                        "-- PROGRAM ARG...\n"
                        "       check-guard --states FOLDER --room BYTES [--empty PLACE]... [--over PATH]... "
                        "[OPTION]... -- PROGRAM ARG...\n"
                        "       check-guard --tries PATH...\n"
                        "       check-guard --alone [--sockets] PROGRAM ARG...\n");
        return FAILED;
    }
    if (wanted.serves)
        return serve(program);
    if (getpid() != 1) {
        fprintf(stderr, "check-guard: it is not PID 1 of a sandbox\n");
        return FAILED;
    }
    make_view(argv, program);
    if (wanted.states.folder != NULL)
        return serve_states(program);
    make_machine(open_proc());
    child = fork();
    if (child < 0)
        die("cannot fork");
    if (child == 0) {
        limit_program();
        execvp(program[0], program);
        die(program[0]);
    }
    return reap(child);
}
