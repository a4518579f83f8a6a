/* SPDX-License-Identifier: Apache-2.0
 *
 * Connects a program on any Linux machine to `powercut listen`:
 *
 *     POWERCUT_TOKEN=5f0c... powercut-client ADDRESS:PORT PROGRAM run DIR
 *
 * It says the token, and becomes PROGRAM, whose POWERCUT_FD is the connection: no process stands
 * between the program and the wire.  ADDRESS is a number, of IPv4 or [IPv6], since a static program
 * has no names.  The token comes by the environment, which others on the machine do not see.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TOKEN_MAX 256

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "powercut-client: %s: %s\n", what, why);
    return 2;
}

/* ADDRESS:PORT or [ADDRESS]:PORT into `at`; its length, or 0. */
static socklen_t parse(const char *text, struct sockaddr_storage *at)
{
    struct sockaddr_in *four = (struct sockaddr_in *)at;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)at;
    char host[INET6_ADDRSTRLEN + 2] = "";
    const char *colon = strrchr(text, ':');
    char *end;
    unsigned long port;
    size_t length;

    if (colon == NULL || (length = (size_t)(colon - text)) >= sizeof host)
        return 0;
    port = strtoul(colon + 1, &end, 10);
    if (colon[1] < '0' || colon[1] > '9' || *end != '\0' || port == 0 || port > 65535)
        return 0;
    memcpy(host, text, length);
    memset(at, 0, sizeof *at);
    if (inet_pton(AF_INET, host, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons((in_port_t)port);
        return sizeof *four;
    }
    if (length > 2 && host[0] == '[' && host[length - 1] == ']') {
        host[length - 1] = '\0';
        if (inet_pton(AF_INET6, host + 1, &six->sin6_addr) == 1) {
            six->sin6_family = AF_INET6;
            six->sin6_port = htons((in_port_t)port);
            return sizeof *six;
        }
    }
    return 0;
}

static int say(int connection, const char *token)
{
    char line[TOKEN_MAX + 2];
    int length = snprintf(line, sizeof line, "%s\n", token);

    if (length < 2 || (size_t)length >= sizeof line) {
        errno = EINVAL;
        return -1;
    }
    return write(connection, line, (size_t)length) == length ? 0 : -1;
}

int main(int count, char *words[])
{
    const char *token = getenv("POWERCUT_TOKEN");
    struct sockaddr_storage at;
    socklen_t length;
    char number[16];
    int connection, one = 1;

    if (count < 3 || token == NULL) {
        fprintf(stderr, "usage: POWERCUT_TOKEN=TOKEN powercut-client ADDRESS:PORT PROGRAM run DIR\n");
        return 2;
    }
    if ((length = parse(words[1], &at)) == 0)
        return fail(words[1], "write NUMBER:PORT, such as 10.0.0.5:7000 or [::1]:7000");
    connection = socket(at.ss_family, SOCK_STREAM, 0);
    if (connection < 0 || connect(connection, (struct sockaddr *)&at, length) != 0)
        return fail(words[1], strerror(errno));
    /* A line that waits for company is an ack that did not arrive before the cut. */
    if (setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0)
        return fail("TCP_NODELAY", strerror(errno));
    if (say(connection, token) != 0)
        return fail("the token", strerror(errno));
    snprintf(number, sizeof number, "%d", connection);
    if (setenv("POWERCUT_FD", number, 1) != 0 || unsetenv("POWERCUT_TOKEN") != 0)
        return fail("the environment", strerror(errno));
    execvp(words[2], words + 2);
    return fail(words[2], strerror(errno));
}
