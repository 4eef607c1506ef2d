/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything that a client can say to stokerd: its messages reach a real session, which opens
 * streams, renders batches and answers. Nothing may be left of it at the end, the loop must come to
 * rest, and what is answered must be the protocol. Byte 0 holds `enum flag` and byte 1 `enum work`;
 * the rest are payloads, each after its length in a byte, or in two bytes when the first is 255; or,
 * with RAW, bytes as they are.
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

/* Who renders: the service itself, or workers that the fuzzer plays. */
enum work {
	WORKERS = 3, /* their number; 0 = the service itself */
	LAST_IN = 4, /* the job that was given last comes back first */
	DIE = 8,     /* each third job is lost */
	FAULTS = 16, /* by a fault of its own */
	SLOW = 32,   /* jobs come back only while the client waits for something */
	QUEUED = 2,  /* jobs given to one worker at a time */
};

struct player {
	struct service_fixture fixture;
	struct fdio io; /* the client's end */
	unsigned flags, work, frames;
	struct pool_job jobs[WORKERS * QUEUED]; /* with workers, oldest first */
	unsigned job_count, jobs_done;
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
	case STOKER__V1__SERVER_MESSAGE__MESSAGE_BATCH:
		assert(message->batch->n_bad_row <= message->batch->bad);
		for (size_t i = 0; i < message->batch->n_bad_row; i++)
			assert(is_utf8(message->batch->bad_row[i]->text));
		break;
	case STOKER__V1__SERVER_MESSAGE__MESSAGE_CLASSES:
		assert(message->classes->n_entry <= message->classes->total);
		break;
	case STOKER__V1__SERVER_MESSAGE__MESSAGE_SAMPLES:
		assert(message->samples->n_entry <= message->samples->total);
		break;
	default: assert(player->greeted);
	}
}

/* ---- workers ---- */

static bool is_good(const struct served_stream *served, uint64_t sample)
{
	const char *name = served->dataset->name;

	return name[0] == 'd' || name[0] == 'l' || (name[0] == 'b' && sample < GOOD_SAMPLES);
}

static void render(struct player *player, const struct pool_job *job)
{
	struct served_stream *served = (struct served_stream *)job->stream;
	const struct arena *arena = &served->stream.arena;
	const struct job_render *rows = &job->render;
	struct result result = {.kind = RESULT_RENDERED, .id = rows->id, .busy_ns = 100000};
	struct pool *pool = &player->fixture.service.pool;

	for (uint32_t i = 0; i < rows->rows; i++) {
		bool good = is_good(served, rows->samples[i]);

		if (!good && served->stream.params.on_bad_sample == BAD_SAMPLE_ERROR)
			break;
		if (!good) {
			struct result bad = {.kind = RESULT_BAD, .rows_done = i, .bad = BAD_SIZE};

			error_set(&bad.reason, 0, "odd\xff");
			pool->ops->bad(job, i, &bad, pool->data);
		}
		arena_rows(arena, rows->slot)[rows->first_row + i] = (struct batch_row){
			.sample = rows->samples[i],
			.status = good ? BATCH_ROW_OK : BATCH_ROW_MASKED,
		};
		memset(arena_pixels(arena, rows->slot, rows->first_row + i), (int)i,
			arena->geometry.row_bytes);
		result.rows_done++;
	}
	if (result.rows_done < rows->rows)
		error_set(&result.reason, 0, "bad\xff");
	pool->ops->rendered(job, &result, pool->data);
}

/* Take jobs, and give one back: true when there was one. */
static bool work(struct player *player)
{
	struct pool *pool = &player->fixture.service.pool;
	struct pool_loss loss = {.fault = player->work & FAULTS, .cause = "SIGSEGV"};
	struct pool_job job;
	unsigned i;

	while (!player->fixture.service.stopping &&
		player->job_count < (player->work & WORKERS) * QUEUED &&
		pool->ops->next_job(&player->jobs[player->job_count], JOB_ROWS_MAX, pool->data))
		player->job_count++;
	if (player->job_count == 0)
		return false;
	i = player->work & LAST_IN ? player->job_count - 1 : 0;
	job = player->jobs[i];
	memmove(&player->jobs[i], &player->jobs[i + 1],
		(--player->job_count - i) * sizeof(struct pool_job));
	loss.rows_done = job.render.rows / 2;
	for (uint32_t k = 0; k < loss.rows_done; k++) {
		if (!is_good((struct served_stream *)job.stream, job.render.samples[k]))
			loss.rows_done = k;
	}
	if ((player->work & DIE) && ++player->jobs_done % 3 == 0)
		pool->ops->lost(&job, &loss, pool->data);
	else
		render(player, &job);
	return true;
}

/* ---- the client ---- */

/* Read what the daemon has sent: true when there was something. */
static bool hear(struct player *player)
{
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

/* Everything that goes on around the service. */
static bool live(void *data)
{
	struct player *player = data;
	bool worked = work(player);

	return hear(player) || worked;
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

static void step(struct player *player)
{
	fixture_turn(&player->fixture);
	if (!(player->work & SLOW))
		work(player);
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
			fixture_settle(&player->fixture, live, player);
		else if (player->flags & STEPPING)
			step(player);
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
	struct player player = {.flags = data[0], .work = data[1]};

	fixture_start(&player.fixture);
	player.fixture.service.pool.target = player.work & WORKERS;
	fdio_init(&player.io, fixture_connect(&player.fixture), FRAME_INLINE_MAX);
	play(&player, data + 2, size - 2);
	if (!(player.flags & STEPPING))
		fixture_settle(&player.fixture, live, &player);
	if (player.flags & HALF_CLOSES) {
		shutdown(player.io.fd, SHUT_WR);
		fixture_settle(&player.fixture, live, &player);
	}
	if (!(player.flags & DAEMON_ENDS)) {
		fdio_finish(&player.io);
		player.flags |= DEAF;
		fixture_settle(&player.fixture, live, &player);
		assert(player.fixture.service.session_count == 0);
		assert(player.fixture.service.stream_count == 0);
	}
	fixture_finish(&player.fixture, live, &player);
	if (player.flags & DAEMON_ENDS)
		hear(&player);
	fdio_finish(&player.io);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool warm;
	static const uint8_t nothing[2];
	int fd;

	if (size < 2)
		return 0;
	log_open("fuzz_session", LOG_LEVEL_ERROR);
	if (!warm) {
		run(nothing, 2); /* libuv makes what it keeps for ever */
		warm = true;
	}
	fd = free_fd();
	run(data, size);
	assert(free_fd() == fd);
	return 0;
}
