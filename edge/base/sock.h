/* Addresses and sockets: parse, print, compare with networks, listen, dial. */
#ifndef BRIM_BASE_SOCK_H
#define BRIM_BASE_SOCK_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "edge/base/check.h"
#include "edge/base/view.h"

struct sock_addr {
	socklen_t len;
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr_un local;
	};
};

/* A network: an address and how many leading bits count. IPv4-mapped IPv6 compares as IPv4. */
struct sock_net {
	uint8_t bytes[16];
	uint8_t bits;
	bool v4;
};

/* "1.2.3.4:80", "[::1]:80", "*:80" (any IPv6 and IPv4), "unix:/path". -EINVAL. */
int sock_addr_parse(struct view text, struct sock_addr *out) NODISCARD;
/* An address without port ("1.2.3.4", "::1", "[::1]"), given the port apart. -EINVAL. */
int sock_addr_literal(struct view host, uint16_t port, struct sock_addr *out) NODISCARD;
enum { SOCK_ADDR_TEXT = 128 };
/* "1.2.3.4:80", "[::1]:80", "unix:/path". Returns out. */
const char *sock_addr_text(const struct sock_addr *a, char out[SOCK_ADDR_TEXT]);
/* The address alone: "1.2.3.4", "::1"; "unix" for a Unix socket. */
const char *sock_addr_host(const struct sock_addr *a, char out[SOCK_ADDR_TEXT]);

/* "10.0.0.0/8", "::1", "unix" is not one. -EINVAL (also for bits set beyond the mask). */
int sock_net_parse(struct view text, struct sock_net *out) NODISCARD;
bool sock_net_holds(const struct sock_net *n, const struct sock_addr *a);

/* 127.0.0.0/8 or ::1. */
bool sock_addr_is_loopback(const struct sock_addr *a);

/* Non-blocking, close-on-exec. reuseport: SO_REUSEPORT (ignored for Unix sockets, whose
 * stale file is replaced if nobody listens on it). A descriptor, or a negative errno. */
int sock_listen(const struct sock_addr *a, int backlog, bool reuseport) NODISCARD;
/* A socket whose non-blocking connect has begun. A descriptor, or a negative errno. */
int sock_dial(const struct sock_addr *a) NODISCARD;
/* The outcome of a dialled socket once it is writable: 0 or a negative errno. */
int sock_dial_result(int fd) NODISCARD;
/* Two TCP sockets that are connected with each other over loopback, blocking, for asking the kernel what it can do. */
int sock_pair(int out_fds[2]) NODISCARD;
/* TCP_NODELAY and what else every TCP stream of ours wants. */
void sock_tune(int fd);

#endif
