/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions as their clients see them, above all clients that misbehave. */
#include "daemon/worker/pool_worker.h"
#include "tests/unit/service_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

struct client {
	struct fdio io;
	struct service_fixture *fixture;
};

static struct client client_connect(struct service_fixture *fixture)
{
	struct client client = {.fixture = fixture};

	fdio_init(&client.io, fixture_connect(fixture), FRAME_INLINE_MAX);
	return client;
}

static void say(struct client *client, const Stoker__V1__ClientMessage *message)
{
	uint8_t packed[4096];
	size_t length = stoker__v1__client_message__get_packed_size(message);

	assert_true(length <= sizeof(packed));
	stoker__v1__client_message__pack(message, packed);
	assert_int_equal(fdio_send(&client->io, packed, length, -1), 0);
	assert_int_equal(fdio_flush(&client->io), 1);
}

#define SAY(client, CASE, field, body)                                                             \
	say(client, &(Stoker__V1__ClientMessage){.base = PROTOBUF_C_MESSAGE_INIT(                  \
							 &stoker__v1__client_message__descriptor), \
			    .message_case = STOKER__V1__CLIENT_MESSAGE__MESSAGE_##CASE,            \
			    .field = body})

static void say_hello(struct client *client, bool takes_fds)
{
	Stoker__V1__Hello hello = STOKER__V1__HELLO__INIT;

	hello.protocol = PROTOCOL_VERSION;
	hello.client = (char *)"test";
	hello.takes_fds = takes_fds;
	SAY(client, HELLO, hello, &hello);
}

static void say_open(struct client *client, const char *dataset, uint32_t batch_size)
{
	Stoker__V1__Transform step = STOKER__V1__TRANSFORM__INIT;
	Stoker__V1__Transform *steps[] = {&step};
	Stoker__V1__ToTensor to_tensor = STOKER__V1__TO_TENSOR__INIT;
	Stoker__V1__Open open = STOKER__V1__OPEN__INIT;

	step.transform_case = STOKER__V1__TRANSFORM__TRANSFORM_TO_TENSOR;
	step.to_tensor = &to_tensor;
	open.request = 7;
	open.dataset.data = (uint8_t *)dataset;
	open.dataset.len = strlen(dataset);
	open.batch_size = batch_size;
	open.transforms = steps;
	open.n_transforms = 1;
	SAY(client, OPEN, open, &open);
}

static void say_release(struct client *client, uint32_t generation)
{
	Stoker__V1__Release release = STOKER__V1__RELEASE__INIT;

	release.stream = 1;
	release.generation = generation;
	SAY(client, RELEASE, release, &release);
}

static void say_status(struct client *client)
{
	Stoker__V1__StatusRequest status = STOKER__V1__STATUS_REQUEST__INIT;

	SAY(client, STATUS, status, &status);
}

/* The next message, which must be of kind `expected`, or NULL when nothing (0) is expected. */
static Stoker__V1__ServerMessage *hear(
	struct client *client, Stoker__V1__ServerMessage__MessageCase expected)
{
	Stoker__V1__ServerMessage *message;
	struct fdio_frame frame;
	int r;

	fixture_settle(client->fixture, NULL, NULL);
	while ((r = fdio_next(&client->io, &frame)) == 0 && fdio_receive(&client->io) > 0)
		fixture_turn(client->fixture);
	if (r == 0) {
		assert_int_equal(expected, 0);
		return NULL;
	}
	assert_int_equal(r, 1);
	close_fd(frame.fd);
	message = stoker__v1__server_message__unpack(NULL, frame.length, frame.payload);
	assert_non_null(message);
	assert_int_equal(message->message_case, expected);
	return message;
}

#define HEAR(client, CASE) hear(client, STOKER__V1__SERVER_MESSAGE__MESSAGE_##CASE)

static void hear_and_forget(struct client *client, Stoker__V1__ServerMessage__MessageCase expected)
{
	stoker__v1__server_message__free_unpacked(hear(client, expected), NULL);
}

#define SKIP(client, CASE) hear_and_forget(client, STOKER__V1__SERVER_MESSAGE__MESSAGE_##CASE)

static bool is_gone(struct client *client)
{
	fixture_settle(client->fixture, NULL, NULL);
	return fdio_receive(&client->io) == -ECONNRESET;
}

static void check_pixels(const Stoker__V1__Batch *batch)
{
	const float *pixels = (const float *)batch->data.data;

	assert_int_equal(batch->data.len, batch->rows * PIXELS * sizeof(float));
	assert_int_equal(batch->n_samples, batch->rows);
	assert_int_equal(batch->n_labels, batch->rows);
	for (uint32_t i = 0; i < batch->rows; i++) {
		assert_int_equal(batch->labels[i], batch->samples[i] % CLASSES);
		for (int k = 0; k < PIXELS; k++)
			assert_true(pixels[i * PIXELS + k] == (float)batch->samples[i] / 255.0f);
	}
}

static void an_epoch_and_no_more(void **state)
{
	struct service_fixture *fixture = *state;
	struct client client = client_connect(fixture);
	static const uint32_t rows[] = {4, 4, 2};

	say_hello(&client, false);
	SKIP(&client, WELCOME);
	say_open(&client, "d", 4);
	SKIP(&client, OPENED);
	for (uint32_t i = 0; i < 3; i++) {
		Stoker__V1__ServerMessage *message = HEAR(&client, BATCH);

		assert_int_equal(message->batch->step, i);
		assert_int_equal(message->batch->rows, rows[i]);
		assert_int_equal(message->batch->generation, i + 1);
		assert_int_equal(message->batch->cursor->position, 4 * i + rows[i]);
		check_pixels(message->batch);
		stoker__v1__server_message__free_unpacked(message, NULL);
		if (i == 2)
			SKIP(&client, EPOCH_END);
		assert_null(hear(&client, 0)); /* depth is 1: nothing before the Release */
		say_release(&client, i + 1);
	}
	SKIP(&client, BATCH); /* of the next epoch: epochs is 0 */
	fdio_finish(&client.io);
}

/* The first worker that is asked to work for a new stream has just died. The rows come back at once,
 * and with them what else there is to tell, but not before Opened. */
static void opened_comes_first(void **state)
{
	struct service_fixture *fixture = *state;
	struct pool *pool = &fixture->service.pool;
	struct client client = client_connect(fixture);
	struct pool_worker dead = {.pool = pool, .ready = true}, *workers[] = {&dead};
	Stoker__V1__Cursor start = STOKER__V1__CURSOR__INIT;
	Stoker__V1__Open open = STOKER__V1__OPEN__INIT;
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	close(pair[1]);
	dead.process.fd = pair[0];
	pool->workers = workers;
	pool->count = pool->target = 1;
	say_hello(&client, false);
	SKIP(&client, WELCOME);
	start.position = SAMPLES; /* EpochEnd is due before any batch */
	start.world = 1;
	start.fingerprint = fixture->service.catalog.datasets[0]->index.fingerprint;
	open.dataset.data = (uint8_t *)"d";
	open.dataset.len = 1;
	open.batch_size = 4;
	open.dtype = STOKER__V1__DTYPE__DTYPE_U8;
	open.start = &start;
	SAY(&client, OPEN, open, &open);
	SKIP(&client, OPENED);
	SKIP(&client, EPOCH_END);
	assert_false(dead.ready); /* it was asked */
	assert_null(hear(&client, 0));
	pool->workers = NULL;
	pool->count = pool->target = 0;
	pool_kick(pool);
	SKIP(&client, BATCH);
	close(pair[0]);
	free(dead.attachments);
	fdio_finish(&client.io);
}

/* What a client that does not read leaves behind waits for it, up to a limit; nobody else does. */
static void a_client_that_does_not_read(void **state)
{
	struct service_fixture *fixture = *state;
	struct client deaf = client_connect(fixture), other = client_connect(fixture);
	struct session *session = fixture->service.sessions->next;

	say_hello(&deaf, false);
	SKIP(&deaf, WELCOME);
	say_open(&deaf, "l", 1);
	SKIP(&deaf, OPENED);
	fixture_settle(fixture, NULL, NULL); /* its batch is larger than a socket takes */
	assert_true(fdio_queued(&session->io) > 0);
	say_hello(&other, false);
	SKIP(&other, WELCOME);
	say_open(&other, "d", 4);
	SKIP(&other, OPENED);
	SKIP(&other, BATCH);
	say_release(&other, 1);
	SKIP(&other, BATCH);
	SKIP(&deaf, BATCH); /* and it is whole when it is read at last */
	fdio_finish(&deaf.io);
	fdio_finish(&other.io);
}

/* Enough requests for answers that nobody reads to go over the limit: the session stops reading. */
static void fill_queue(struct client *client, struct session *session)
{
	Stoker__V1__StatusRequest status = STOKER__V1__STATUS_REQUEST__INIT;
	int r = 1;

	for (int i = 0; i < 100000 && r == 1; i++) {
		SAY(client, STATUS, status, &status);
		if (i % 50 == 0)
			fixture_settle(client->fixture, NULL, NULL);
		if (fdio_queued(&session->io) > SESSION_QUEUE_MAX)
			break;
	}
	assert_true(fdio_queued(&session->io) > SESSION_QUEUE_MAX);
	/* More than a buffer of frames that are not handled, and more in the socket behind it. */
	for (int i = 0; i < 3; i++) {
		uint8_t filler[20000];

		memset(filler, 0, sizeof(filler));
		memcpy(filler, "\xfa\x01\x9a\x9c\x01", 5); /* field 31, 19994 bytes */
		assert_int_equal(fdio_send(&client->io, filler, 5 + 19994, -1), 0);
		fdio_flush(&client->io);
	}
}

static void a_full_queue_and_half_a_hang_up(void **state)
{
	struct service_fixture *fixture = *state;
	struct client client = client_connect(fixture);
	struct session *session = fixture->service.sessions;

	say_hello(&client, false);
	SKIP(&client, WELCOME);
	fill_queue(&client, session);
	fixture_settle(fixture, NULL, NULL);
	shutdown(client.io.fd, SHUT_WR);
	fixture_settle(fixture, NULL, NULL); /* asserts that the loop does not spin */
	fdio_finish(&client.io);
	fixture_settle(fixture, NULL, NULL);
	assert_int_equal(fixture->service.session_count, 0);
}

static void a_full_queue_and_a_death(void **state)
{
	struct service_fixture *fixture = *state;
	struct client client = client_connect(fixture);

	say_hello(&client, false);
	SKIP(&client, WELCOME);
	fill_queue(&client, fixture->service.sessions);
	fdio_finish(&client.io);
	fixture_settle(fixture, NULL, NULL);
	assert_int_equal(fixture->service.session_count, 0);
}

static void a_full_queue_that_is_read_at_last(void **state)
{
	enum { REQUESTS = 8000 };
	static const uint8_t status[] = {0x32, 0x02, 0x08, 0x09}; /* StatusRequest{9} */
	struct service_fixture *fixture = *state;
	struct client client = client_connect(fixture);
	struct session *session = fixture->service.sessions;
	struct fdio_frame frame;
	int answers = 0;

	say_hello(&client, false);
	SKIP(&client, WELCOME);
	for (int i = 0; i < REQUESTS; i++)
		assert_int_equal(fdio_send(&client.io, status, sizeof(status), -1), 0);
	while (fdio_queued(&session->io) <= SESSION_QUEUE_MAX) {
		fdio_flush(&client.io);
		fixture_settle(fixture, NULL, NULL);
	}
	while (answers < REQUESTS) {
		assert_true(fdio_flush(&client.io) >= 0);
		fixture_settle(fixture, NULL, NULL);
		assert_int_equal(fdio_receive(&client.io), 1); /* each turn brings something */
		while (fdio_next(&client.io, &frame) > 0)
			answers++;
	}
	assert_null(hear(&client, 0));
	fdio_finish(&client.io);
}

static void a_violation_is_told(void **state)
{
	struct service_fixture *fixture = *state;
	struct client client = client_connect(fixture);
	Stoker__V1__ServerMessage *message;

	say_hello(&client, false);
	SKIP(&client, WELCOME);
	say_hello(&client, false);
	say_status(&client); /* not answered any more */
	message = HEAR(&client, ERROR);
	assert_true(message->error->closing);
	assert_int_equal(message->error->code, STOKER__V1__ERROR_CODE__ERROR_PROTOCOL);
	stoker__v1__server_message__free_unpacked(message, NULL);
	assert_true(is_gone(&client));
	fdio_finish(&client.io);
}

static void a_bad_sample_ends_its_stream_only(void **state)
{
	struct service_fixture *fixture = *state;
	struct client client = client_connect(fixture);
	Stoker__V1__ServerMessage *message;

	say_hello(&client, false);
	SKIP(&client, WELCOME);
	say_open(&client, "b", 4);
	SKIP(&client, OPENED);
	SKIP(&client, BATCH);
	say_release(&client, 1);
	message = HEAR(&client, ERROR);
	assert_int_equal(message->error->code, STOKER__V1__ERROR_CODE__ERROR_BAD_SAMPLE);
	assert_int_equal(message->error->stream, 1);
	assert_false(message->error->closing);
	assert_non_null(strstr(message->error->text, "/in/memory#6"));
	stoker__v1__server_message__free_unpacked(message, NULL);
	say_release(&client, 2); /* may have crossed the end on its way: no violation */
	assert_null(hear(&client, 0));
	assert_int_equal(fixture->service.budget.used, 0);
	say_open(&client, "d", 4);
	SKIP(&client, OPENED);
	SKIP(&client, BATCH);
	fdio_finish(&client.io);
}

static void an_index_that_fails_is_told(void **state)
{
	struct service_fixture *fixture = *state;
	struct client client = client_connect(fixture);
	Stoker__V1__ServerMessage *message;

	say_hello(&client, false);
	SKIP(&client, WELCOME);
	say_open(&client, "i", 4);
	SKIP(&client, INDEXING);
	assert_int_equal(catalog_set(&fixture->service.catalog, NULL, 0), 0);
	message = HEAR(&client, ERROR);
	assert_int_equal(message->error->code, STOKER__V1__ERROR_CODE__ERROR_DATASET);
	assert_int_equal(message->error->request, 7);
	stoker__v1__server_message__free_unpacked(message, NULL);
	fdio_finish(&client.io);
}

static void a_reload_leaves_open_streams_alone(void **state)
{
	struct service_fixture *fixture = *state;
	struct client client = client_connect(fixture);

	say_hello(&client, false);
	SKIP(&client, WELCOME);
	say_open(&client, "d", 4);
	SKIP(&client, OPENED);
	SKIP(&client, BATCH);
	assert_int_equal(catalog_set(&fixture->service.catalog, NULL, 0), 0);
	say_release(&client, 1);
	SKIP(&client, BATCH);
	say_open(&client, "d", 4);
	SKIP(&client, ERROR);
	fdio_finish(&client.io);
}

static void the_daemon_says_goodbye(void **state)
{
	struct service_fixture *fixture = *state;
	struct client client = client_connect(fixture);

	say_hello(&client, false);
	SKIP(&client, WELCOME);
	say_open(&client, "d", 4);
	session_dismiss(fixture->service.sessions);
	SKIP(&client, GOING_AWAY);
	assert_true(is_gone(&client));
	fdio_finish(&client.io);
}

static int start(void **state)
{
	static struct service_fixture fixture;

	log_open("test_session", LOG_LEVEL_ERROR);
	fixture_start(&fixture);
	*state = &fixture;
	return 0;
}

/* Nothing is left of the clients, then nothing of the service. */
static int finish(void **state)
{
	struct service_fixture *fixture = *state;
	const struct service *service = &fixture->service;
	bool clean;

	fixture_settle(fixture, NULL, NULL);
	clean = service->session_count == 0 && service->stream_count == 0 &&
		service->budget.used == 0;
	fixture_finish(fixture, NULL, NULL);
	return clean ? 0 : -1;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_epoch_and_no_more),
		TEST(opened_comes_first),
		TEST(a_client_that_does_not_read),
		TEST(a_full_queue_and_half_a_hang_up),
		TEST(a_full_queue_and_a_death),
		TEST(a_full_queue_that_is_read_at_last),
		TEST(a_violation_is_told),
		TEST(a_bad_sample_ends_its_stream_only),
		TEST(an_index_that_fails_is_told),
		TEST(a_reload_leaves_open_streams_alone),
		TEST(the_daemon_says_goodbye),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
