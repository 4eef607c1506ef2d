/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything that a client can say to stokerd: its messages reach a real session, which opens
 * streams, renders batches and answers. Nothing may be left of it at the end, the loop must come to
 * rest, and what is answered must be the protocol. Byte 0 holds `enum flag`; the rest are payloads,
 * each after its length in a byte, or in two bytes when the first is 255; or, with RAW, bytes as
 * they are.
 */
#include "tests/unit/service_fixture.h"

#ifdef NDEBUG
#error "the checks are assertions"
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum flag {
	RAW = 1,          /* the rest are bytes, not payloads */
	DEAF = 2,         /* the client does not read before the end */
	PATIENT = 4,      /* it waits for what follows from each message */
	STEPPING = 8,     /* it lets the loop turn once after each message */
	DAEMON_ENDS = 16, /* the daemon ends before the client */
	HALF_CLOSES = 32, /* the client shuts its sending side down before it closes */
	RELOAD = 64,      /* half-way, the daemon's configuration is reloaded, with no data set */
	SENDS_FD = 128,   /* a descriptor comes with the second frame */
};

struct player {
	struct service_fixture fixture;
	struct fdio io; /* the client's end */
	unsigned flags, frames;
	bool greeted, over; /* heard Welcome; heard Error.closing */
};

static bool is_utf8(const char *text)
{
	struct escaped escaped;
	char whole[8];

	/* escape() leaves only valid UTF-8 alone; a backslash is doubled, and that is all. */
	for (const char *at = text; *at != '\0'; at++) {
		if ((unsigned char)*at < 0x80)
			continue;
		size_t n = (*at & 0xe0) == 0xc0 ? 2 : (*at & 0xf0) == 0xe0 ? 3 : 4;

		snprintf(whole, n + 1, "%s", at);
		escaped = escape(whole);
		if (strcmp(escaped.text, whole) != 0)
			return false;
		at += n - 1;
	}
	return true;
}

static void check_message(struct player *player, const Stoker__V1__ServerMessage *message)
{
	assert(!player->over);
	switch (message->message_case) {
	case STOKER__V1__SERVER_MESSAGE__MESSAGE__NOT_SET: assert(!"an empty message");
	case STOKER__V1__SERVER_MESSAGE__MESSAGE_WELCOME: player->greeted = true; break;
	case STOKER__V1__SERVER_MESSAGE__MESSAGE_ERROR:
		assert(message->error->text[0] != '\0' && is_utf8(message->error->text));
		assert(message->error->code != STOKER__V1__ERROR_CODE__ERROR_UNSPECIFIED);
		player->over = message->error->closing;
		break;
	case STOKER__V1__SERVER_MESSAGE__MESSAGE_GOING_AWAY: player->over = true; break;
	default: assert(player->greeted);
	}
}

/* Read what the daemon has sent: true when there was something. */
static bool hear(void *data)
{
	struct player *player = data;
	struct fdio_frame frame;
	bool any = false;

	if (player->flags & DEAF)
		return false;
	while (fdio_receive(&player->io) > 0) {
		while (fdio_next(&player->io, &frame) > 0) {
			Stoker__V1__ServerMessage *message = stoker__v1__server_message__unpack(
				NULL, frame.length, frame.payload);

			assert(message);
			check_message(player, message);
			stoker__v1__server_message__free_unpacked(message, NULL);
			close_fd(frame.fd);
		}
		any = true;
	}
	return any;
}

static void send_bytes(struct player *player, const uint8_t *bytes, size_t length, int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct iovec part = {.iov_base = (void *)bytes, .iov_len = length};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	if (length == 0)
		return;
	if (fd >= 0) {
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.align), &fd, sizeof(int));
	}
	/* What a full socket does not take is lost, and the rest is then another stream of bytes. */
	sendmsg(player->io.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void send_frame(struct player *player, const uint8_t *payload, size_t length)
{
	bool with_fd = (player->flags & SENDS_FD) && player->frames == 1;
	uint8_t header[FRAME_HEADER_BYTES];

	player->frames++;
	frame_encode(header, &(struct frame_header){.length = (uint32_t)length, .fds = with_fd});
	send_bytes(player, header, sizeof(header), with_fd ? player->io.fd : -1);
	send_bytes(player, payload, length, -1);
}

static void play(struct player *player, const uint8_t *data, size_t size)
{
	size_t at = 0;

	while (at < size) {
		size_t before = at, length = size;

		if (!(player->flags & RAW)) {
			length = data[at++];
			if (length == 255 && size - at >= 2) {
				length = data[at] | data[at + 1] << 8;
				at += 2;
			}
		}
		length = length < size - at ? length : size - at;
		if (player->flags & RAW)
			send_bytes(player, data + at, length, -1);
		else
			send_frame(player, data + at, length);
		at += length;
		if ((player->flags & RELOAD) && before < size / 2 && at >= size / 2)
			assert(catalog_set(&player->fixture.service.catalog, NULL, 0) == 0);
		if (player->flags & PATIENT)
			fixture_settle(&player->fixture, hear, player);
		else if (player->flags & STEPPING)
			fixture_turn(&player->fixture);
	}
}

/* The lowest descriptor that is free. */
static int free_fd(void)
{
	int fd = fcntl(0, F_DUPFD_CLOEXEC, 0);

	assert(fd >= 0);
	close(fd);
	return fd;
}

static void run(const uint8_t *data, size_t size)
{
	struct player player = {.flags = data[0]};

	fixture_start(&player.fixture);
	fdio_init(&player.io, fixture_connect(&player.fixture), FRAME_INLINE_MAX);
	play(&player, data + 1, size - 1);
	if (!(player.flags & STEPPING))
		fixture_settle(&player.fixture, hear, &player);
	if (player.flags & HALF_CLOSES) {
		shutdown(player.io.fd, SHUT_WR);
		fixture_settle(&player.fixture, hear, &player);
	}
	if (!(player.flags & DAEMON_ENDS)) {
		fdio_finish(&player.io);
		fixture_settle(&player.fixture, NULL, NULL);
		assert(player.fixture.service.session_count == 0);
		assert(player.fixture.service.stream_count == 0);
	}
	fixture_finish(&player.fixture);
	if (player.flags & DAEMON_ENDS)
		hear(&player);
	fdio_finish(&player.io);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool warm;
	static const uint8_t nothing;
	int fd;

	if (size == 0)
		return 0;
	log_open("fuzz_session", LOG_LEVEL_ERROR);
	if (!warm) {
		run(&nothing, 1); /* libuv makes what it keeps for ever */
		warm = true;
	}
	fd = free_fd();
	run(data, size);
	assert(free_fd() == fd);
	return 0;
}
