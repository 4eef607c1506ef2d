/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/client_fixture.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

/* ---- connecting ---- */

struct place {
	char folder[64];
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

static struct place place_create(void)
{
	struct place place = {.folder = "/tmp/stoker-test-client.XXXXXX"};

	assert_non_null(mkdtemp(place.folder));
	snprintf(place.path, sizeof(place.path), "%s/s", place.folder);
	return place;
}

static void place_finish(struct place *place)
{
	unlink(place->path);
	assert_int_equal(rmdir(place->folder), 0);
}

static int listen_at(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_true(strlen(path) < sizeof(address.sun_path));
	memcpy(address.sun_path, path, strlen(path));
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 4), 0);
	return fd;
}

/* A child that accepts one client, reads its first frame, answers with `answer` and waits until the
 * client has gone. Its exit status is 0 when the frame was `expected` (any when NULL). */
static pid_t serve_once(int listener, const void *answer, size_t length, const char *expected)
{
	pid_t child = fork();
	uint8_t frame[256];
	ssize_t got;
	int fd;

	assert_true(child >= 0);
	if (child > 0) {
		close(listener);
		return child;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test must not leave it waiting */
	fd = accept(listener, NULL, NULL);
	got = recv(fd, frame, sizeof(frame), 0);
	if (expected && (got != strlen(expected) + 8 || memcmp(frame + 8, expected, got - 8) != 0))
		_exit(1);
	if (length > 0 && send(fd, answer, length, MSG_NOSIGNAL) != length)
		_exit(2);
	if (length > 0)
		recv(fd, frame, sizeof(frame), 0);
	_exit(0);
}

static void join(pid_t child)
{
	int status;

	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static size_t pack_frame(uint8_t *frame, const Stoker__V1__ServerMessage *message)
{
	struct frame_header header = {
		.length = stoker__v1__server_message__get_packed_size(message)};

	frame_encode(frame, &header);
	stoker__v1__server_message__pack(message, frame + FRAME_HEADER_BYTES);
	return FRAME_HEADER_BYTES + header.length;
}

static size_t pack_welcome(uint8_t *frame, uint32_t protocol)
{
	Stoker__V1__ServerMessage message = STOKER__V1__SERVER_MESSAGE__INIT;
	Stoker__V1__Welcome welcome = STOKER__V1__WELCOME__INIT;

	welcome.protocol = protocol;
	welcome.server_version = (char *)"9";
	welcome.max_inline_frame = FRAME_INLINE_MAX;
	message.message_case = STOKER__V1__SERVER_MESSAGE__MESSAGE_WELCOME;
	message.welcome = &welcome;
	return pack_frame(frame, &message);
}

static void a_daemon_is_greeted(void **state)
{
	/* Hello{protocol: 1, client: "test", takes_fds: true}, as worked out in PROTOCOL.md */
	static const char hello[] = "\x0a\x0a\x08\x01\x12\x04test\x18\x01";
	struct place place = place_create();
	struct stoker *stoker = stoker_create();
	uint8_t frame[256];
	size_t length = pack_welcome(frame, 1);
	pid_t child;

	(void)state;
	assert_int_equal(stoker_fd(stoker), -1);
	assert_string_equal(stoker_message(stoker), "");
	child = serve_once(listen_at(place.path), frame, length, hello);
	assert_int_equal(stoker_connect(stoker, place.path, "test"), 0);
	assert_true(stoker_fd(stoker) >= 0);
	assert_int_equal(stoker_connect(stoker, place.path, "test"), -EISCONN);
	stoker_destroy(stoker);
	join(child);
	place_finish(&place);
}

static void bad_greetings_are_refused(void **state)
{
	Stoker__V1__ServerMessage message = STOKER__V1__SERVER_MESSAGE__INIT;
	Stoker__V1__Error error = STOKER__V1__ERROR__INIT;
	Stoker__V1__GoingAway going_away = STOKER__V1__GOING_AWAY__INIT;
	uint8_t version[256], wrong_version[256], full[256], early[256];
	struct {
		const uint8_t *answer;
		size_t length;
		int result;
		const char *words;
	} cases[] = {
		{version, 0, -EPROTONOSUPPORT, "speak 2"},
		{wrong_version, pack_welcome(wrong_version, 2), -EPROTONOSUPPORT, "version 2"},
		{full, 0, -EUSERS, "speak 2"},
		{early, 0, -EBADMSG, "first message is not Welcome"},
		{(const uint8_t *)"HTTP/1.1 400 Bad Request\r\n", 26, -EBADMSG,
			"does not speak stoker's protocol"},
		{(const uint8_t *)"\x02\0\0\0\0\0\0\0\xff\xff", 10, -EBADMSG, "cannot be decoded"},
		{NULL, 0, -ECONNRESET, "closed the connection"},
	};

	(void)state;
	error.code = STOKER__V1__ERROR_CODE__ERROR_VERSION;
	error.text = (char *)"speak 2";
	error.closing = true;
	message.message_case = STOKER__V1__SERVER_MESSAGE__MESSAGE_ERROR;
	message.error = &error;
	cases[0].length = pack_frame(version, &message);
	error.code = STOKER__V1__ERROR_CODE__ERROR_LIMIT;
	cases[2].length = pack_frame(full, &message);
	message.message_case = STOKER__V1__SERVER_MESSAGE__MESSAGE_GOING_AWAY;
	message.going_away = &going_away;
	cases[3].length = pack_frame(early, &message);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct place place = place_create();
		struct stoker *stoker = stoker_create();
		int before = count_descriptors();
		pid_t child =
			serve_once(listen_at(place.path), cases[i].answer, cases[i].length, NULL);

		assert_int_equal(stoker_connect(stoker, place.path, NULL), cases[i].result);
		if (!strstr(stoker_message(stoker), cases[i].words))
			fail_msg("%s", stoker_message(stoker));
		assert_int_equal(stoker_fd(stoker), -1);
		assert_int_equal(count_descriptors(), before);
		join(child);

		/* the same object can try again */
		unlink(place.path);
		assert_int_equal(stoker_connect(stoker, place.path, NULL), -ENOENT);
		stoker_destroy(stoker);
		place_finish(&place);
	}
}

static void no_daemon_is_explained(void **state)
{
	struct place place = place_create();
	struct stoker *stoker = stoker_create();
	char name[66], path[300];

	(void)state;
	assert_int_equal(stoker_connect(stoker, place.path, NULL), -ENOENT);
	assert_non_null(strstr(stoker_message(stoker), place.path));
	assert_non_null(strstr(stoker_message(stoker), "STOKER_SOCKET"));

	close(listen_at(place.path));
	assert_int_equal(stoker_connect(stoker, place.path, NULL), -ECONNREFUSED);
	assert_non_null(strstr(stoker_message(stoker), place.path));

	memset(path, 'x', sizeof(path));
	path[107] = '\0';
	assert_int_equal(stoker_connect(stoker, path, NULL), -ENOENT);
	path[107] = 'x';
	path[108] = '\0';
	assert_int_equal(stoker_connect(stoker, path, NULL), -ENAMETOOLONG);
	assert_non_null(strstr(stoker_message(stoker), "108 bytes"));

	memset(name, 'n', sizeof(name));
	name[65] = '\0';
	assert_int_equal(stoker_connect(stoker, place.path, name), -EINVAL);
	assert_int_equal(stoker_connect(stoker, place.path, "\xff"), -EINVAL);
	assert_int_equal(stoker_connect(stoker, "", NULL), -EINVAL);
	assert_non_null(strstr(stoker_message(stoker), "empty"));
	stoker_destroy(stoker);
	place_finish(&place);
}

static void default_socket_is_found(void **state)
{
	struct place place = place_create();
	char path[108], folder[80], socket[100];

	(void)state;
	snprintf(folder, sizeof(folder), "%s/stoker", place.folder);
	snprintf(socket, sizeof(socket), "%s/stoker.sock", folder);
	unsetenv("STOKER_SOCKET");
	unsetenv("XDG_RUNTIME_DIR");
	assert_int_equal(stoker_default_socket(path, sizeof(path)), 0);
	assert_string_equal(path, "/run/stoker/stoker.sock");
	setenv("XDG_RUNTIME_DIR", place.folder, 1);
	assert_int_equal(stoker_default_socket(path, sizeof(path)), 0);
	assert_string_equal(path, "/run/stoker/stoker.sock");
	assert_int_equal(mkdir(folder, 0700), 0);
	close(listen_at(socket));
	assert_int_equal(stoker_default_socket(path, sizeof(path)), 0);
	assert_string_equal(path, socket);
	setenv("STOKER_SOCKET", "/else/where", 1);
	assert_int_equal(stoker_default_socket(path, sizeof(path)), 0);
	assert_string_equal(path, "/else/where");
	assert_int_equal(stoker_default_socket(path, 11), -ENAMETOOLONG);
	unsetenv("STOKER_SOCKET");
	unsetenv("XDG_RUNTIME_DIR");
	unlink(socket);
	rmdir(folder);
	place_finish(&place);
}

static void unconnected_calls_say_so(void **state)
{
	struct stoker *stoker = stoker_create();
	struct stoker_options options = make_options();
	struct stoker_stream *stream;
	struct stoker_status *status;

	(void)state;
	assert_int_equal(stoker_open(stoker, &options, &stream), -ENOTCONN);
	assert_null(stream);
	assert_int_equal(stoker_status(stoker, &status), -ENOTCONN);
	assert_non_null(strstr(stoker_message(stoker), "stoker_connect"));
	stoker_destroy(stoker);
	stoker_destroy(NULL);
}

/* ---- answers ---- */

static void errors_become_errnos(void **state)
{
	static const struct {
		Stoker__V1__ErrorCode code;
		int result;
	} cases[] = {
		{STOKER__V1__ERROR_CODE__ERROR_BAD_REQUEST, -EINVAL},
		{STOKER__V1__ERROR_CODE__ERROR_UNKNOWN_DATASET, -ENOENT},
		{STOKER__V1__ERROR_CODE__ERROR_DATASET, -ENODATA},
		{STOKER__V1__ERROR_CODE__ERROR_MEMORY, -ENOMEM},
		{STOKER__V1__ERROR_CODE__ERROR_LIMIT, -EUSERS},
		{STOKER__V1__ERROR_CODE__ERROR_CURSOR, -ESTALE},
		{STOKER__V1__ERROR_CODE__ERROR_INTERNAL, -EIO},
		{(Stoker__V1__ErrorCode)99, -EIO},
	};
	struct fixture fixture = fixture_create();
	struct stoker_options options = make_options();
	struct stoker_stream *stream;
	uint32_t request = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		say_error(&fixture, cases[i].code, ++request, 0, false);
		assert_int_equal(stoker_open(fixture.stoker, &options, &stream), cases[i].result);
		assert_null(stream);
		/* the text cannot move a terminal's cursor */
		assert_string_equal(stoker_message(fixture.stoker), "the daemon's ?own words");
		heard_open(&fixture);
	}
	/* the connection still works, until an error closes it */
	say_error(&fixture, STOKER__V1__ERROR_CODE__ERROR_PROTOCOL, 0, 0, true);
	assert_int_equal(stoker_open(fixture.stoker, &options, &stream), -EBADMSG);
	assert_int_equal(stoker_open(fixture.stoker, &options, &stream), -EBADMSG);
	message_has(&fixture, "own words");
	fixture_finish(&fixture);
}

static void an_error_may_answer_and_close(void **state)
{
	struct fixture fixture = fixture_create();
	struct stoker_options options = make_options();
	struct stoker_stream *stream;

	(void)state;
	say_error(&fixture, STOKER__V1__ERROR_CODE__ERROR_LIMIT, 1, 0, true);
	assert_int_equal(stoker_open(fixture.stoker, &options, &stream), -EUSERS);
	assert_int_equal(stoker_open(fixture.stoker, &options, &stream), -EUSERS);
	fixture_finish(&fixture);
}

static void the_last_words_are_heard(void **state)
{
	struct fixture fixture = fixture_create();
	struct stoker_options options = make_options();
	struct stoker_stream *stream;

	(void)state;
	say_error(&fixture, STOKER__V1__ERROR_CODE__ERROR_LIMIT, 0, 0, true);
	fdio_finish(&fixture.server); /* our Open cannot be sent any more */
	assert_int_equal(stoker_open(fixture.stoker, &options, &stream), -EUSERS);
	message_has(&fixture, "own words");
	fixture_finish(&fixture);
}

/* The daemon is lost: noticed by nobody yet, by a Close that could not be sent, or by a read. */
static void a_lost_connection_can_be_made_again(void **state)
{
	(void)state;
	for (int noticed = 0; noticed < 3; noticed++) {
		struct fixture fixture = fixture_create();
		struct place place = place_create();
		struct stoker_stream *stream = open_shared(&fixture, 1, 7);
		struct stoker_batch *batch;

		assert_int_equal(stoker_connect(fixture.stoker, place.path, NULL), -EISCONN);
		if (noticed == 0) { /* a Close that the daemon has not answered */
			stoker_close(stream);
			assert_int_equal(
				stoker_connect(fixture.stoker, place.path, NULL), -EISCONN);
		}
		fdio_finish(&fixture.server);
		if (noticed == 2)
			assert_int_equal(stoker_next(stream, 0, &batch), -ECONNRESET);
		if (noticed > 0) {
			assert_int_equal(stoker_connect(fixture.stoker, place.path, NULL), -EBUSY);
			stoker_close(stream);
		}
		assert_int_equal(stoker_connect(fixture.stoker, place.path, NULL), -ENOENT);
		place_finish(&place);
		fixture_finish(&fixture);
	}
}

static void status_is_copied_and_escaped(void **state)
{
	struct fixture fixture = fixture_create();
	Stoker__V1__StatusReply reply = STOKER__V1__STATUS_REPLY__INIT;
	Stoker__V1__WorkerStatus worker = STOKER__V1__WORKER_STATUS__INIT, *workers[] = {&worker};
	Stoker__V1__DatasetStatus dataset = STOKER__V1__DATASET_STATUS__INIT,
				  *datasets[] = {&dataset};
	Stoker__V1__StreamStatus stream = STOKER__V1__STREAM_STATUS__INIT, *streams[] = {&stream};
	struct stoker_status *status;

	(void)state;
	reply.request = 1;
	reply.version = (char *)"1.2";
	reply.sandbox = (char *)"seccomp\r";
	reply.pid = 42;
	reply.clients = 3;
	reply.truncated = true;
	reply.worker = workers;
	reply.n_worker = 1;
	worker.pid = 43;
	worker.samples = UINT64_C(1) << 40;
	reply.dataset = datasets;
	reply.n_dataset = 1;
	dataset.name.data = (uint8_t *)"na\xffme";
	dataset.name.len = 5;
	dataset.path.data = (uint8_t *)"/a\\b\n\xc2\x85\xc3\xa4\xed\xa0\x80";
	dataset.path.len = 12;
	dataset.state = STOKER__V1__DATASET_STATE__DATASET_READY;
	dataset.channels = 3;
	reply.stream = streams;
	reply.n_stream = 1;
	stream.client = (char *)"trainer";
	stream.payload = STOKER__V1__PAYLOAD__PAYLOAD_INLINE;
	stream.lent = 2;
	SAY(&fixture, STATUS, status, &reply, -1);
	assert_int_equal(stoker_status(fixture.stoker, &status), 0);
	assert_string_equal(status->version, "1.2");
	assert_string_equal(status->sandbox, "seccomp?");
	assert_int_equal(status->pid, 42);
	assert_int_equal(status->clients, 3);
	assert_true(status->truncated);
	assert_int_equal(status->worker_count, 1);
	assert_int_equal(status->worker[0].samples, UINT64_C(1) << 40);
	assert_int_equal(status->dataset_count, 1);
	assert_string_equal(status->datasets[0].name, "na\\xffme");
	assert_string_equal(
		status->datasets[0].path, "/a\\\\b\\x0a\\xc2\\x85\xc3\xa4\\xed\\xa0\\x80");
	assert_string_equal(status->datasets[0].kind, "");
	assert_string_equal(status->datasets[0].state, "ready");
	assert_int_equal(status->stream_count, 1);
	assert_string_equal(status->streams[0].client, "trainer");
	assert_string_equal(status->streams[0].payload, "inline");
	assert_int_equal(status->streams[0].lent, 2);
	stoker_status_free(status);
	stoker_status_free(NULL);

	/* an answer of the wrong kind does not count as one */
	Stoker__V1__Opened opened = make_opened(2, 9, STOKER__V1__PAYLOAD__PAYLOAD_INLINE);

	SAY(&fixture, OPENED, opened, &opened, -1);
	fdio_finish(&fixture.server);
	assert_int_equal(stoker_status(fixture.stoker, &status), -ECONNRESET);
	fixture_finish(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_daemon_is_greeted),
		cmocka_unit_test(bad_greetings_are_refused),
		cmocka_unit_test(no_daemon_is_explained),
		cmocka_unit_test(default_socket_is_found),
		cmocka_unit_test(unconnected_calls_say_so),
		cmocka_unit_test(errors_become_errnos),
		cmocka_unit_test(an_error_may_answer_and_close),
		cmocka_unit_test(the_last_words_are_heard),
		cmocka_unit_test(a_lost_connection_can_be_made_again),
		cmocka_unit_test(status_is_copied_and_escaped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
