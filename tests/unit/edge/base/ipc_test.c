/* Packets keep their bounds and descriptors; death reads as an end; what is malformed leaks nothing. */
#include "edge/base/ipc.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static struct ipc_message message;

static void messages_keep_their_bounds(void **state)
{
	int pair[2];

	(void)state;
	assert_int_equal(ipc_pair(pair), 0);
	assert_int_equal(ipc_receive(pair[1], &message), -EAGAIN);
	assert_int_equal(ipc_send(pair[0], 7, "hello", 5, NULL, 0), 0);
	assert_int_equal(ipc_send(pair[0], 8, NULL, 0, NULL, 0), 0);
	assert_int_equal(ipc_receive(pair[1], &message), 1);
	assert_true(message.type == 7 && message.body_bytes == 5 && message.fd_count == 0);
	assert_memory_equal(message.body, "hello", 5);
	assert_int_equal(ipc_receive(pair[1], &message), 1);
	assert_true(message.type == 8 && message.body_bytes == 0);
	close(pair[0]);
	assert_int_equal(ipc_receive(pair[1], &message), 0);
	close(pair[1]);
}

static void descriptors_travel(void **state)
{
	int pair[2], ends[2], fds[IPC_FDS_MAX];
	char c = 0;

	(void)state;
	assert_int_equal(ipc_pair(pair), 0);
	assert_int_equal(pipe(ends), 0);
	for (int i = 0; i < IPC_FDS_MAX; i++)
		fds[i] = ends[1];
	assert_int_equal(ipc_send(pair[0], 1, "x", 1, fds, IPC_FDS_MAX), 0);
	assert_int_equal(ipc_receive(pair[1], &message), 1);
	assert_int_equal(message.fd_count, IPC_FDS_MAX);
	assert_true(fcntl(message.fds[0], F_GETFD) & FD_CLOEXEC);
	assert_int_equal(write(message.fds[IPC_FDS_MAX - 1], "y", 1), 1);
	assert_int_equal(read(ends[0], &c, 1), 1);
	for (int i = 0; i < IPC_FDS_MAX; i++)
		close(message.fds[i]);
	close(ends[0]);
	close(ends[1]);
	close(pair[0]);
	close(pair[1]);
}

static void a_full_queue_says_again(void **state)
{
	static char body[IPC_BODY_MAX];
	int pair[2], sent = 0, result;

	(void)state;
	assert_int_equal(ipc_pair(pair), 0);
	while ((result = ipc_send(pair[0], 1, body, sizeof(body), NULL, 0)) == 0)
		sent++;
	assert_int_equal(result, -EAGAIN);
	for (; sent > 0; sent--)
		assert_int_equal(ipc_receive(pair[1], &message), 1);
	assert_int_equal(message.body_bytes, IPC_BODY_MAX);
	close(pair[1]);
	assert_int_equal(ipc_send(pair[0], 1, body, 1, NULL, 0), -EPIPE);
	close(pair[0]);
}

/* A packet that is too long comes with a descriptor: it must be closed, or the peer could use ours up. */
static void malformed_packets_leak_nothing(void **state)
{
	static char packet[IPC_BODY_MAX + 100];
	int pair[2], ends[2];
	char c;

	(void)state;
	assert_int_equal(ipc_pair(pair), 0);
	assert_int_equal(pipe(ends), 0);
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .header = { .cmsg_len = CMSG_LEN(sizeof(int)),
				  .cmsg_level = SOL_SOCKET,
				  .cmsg_type = SCM_RIGHTS } };
	memcpy(CMSG_DATA(&control.header), &ends[1], sizeof(int));
	struct iovec iov = { packet, sizeof(packet) };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };
	assert_int_equal(sendmsg(pair[0], &m, 0), sizeof(packet));
	close(ends[1]);
	assert_int_equal(ipc_receive(pair[1], &message), -EPROTO);
	assert_int_equal(read(ends[0], &c, 1), 0); /* no writer is left */
	assert_int_equal(send(pair[0], "ab", 2, 0), 2);
	assert_int_equal(ipc_receive(pair[1], &message), -EPROTO);
	close(ends[0]);
	close(pair[0]);
	close(pair[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_keep_their_bounds),
		cmocka_unit_test(descriptors_travel),
		cmocka_unit_test(a_full_queue_says_again),
		cmocka_unit_test(malformed_packets_leak_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
