/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server.h"

#include "daemon/notify.h"
#include "daemon/serve/session.h"
#include "daemon/util/log.h"
#include "daemon/util/resources.h"
#include "daemon/worker/sandbox.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum {
	KILL_AFTER_MS = 1000, /* workers that have not ended by then are killed */
	LEAVE_AFTER_MS = 600, /* and then we leave, whatever is still open */
};

/* ---- the end ---- */

static void close_handle(uv_handle_t *handle)
{
	if (!uv_is_closing(handle))
		uv_close(handle, NULL);
}

/* The last step: with its handles closed the loop has nothing left to wait for. */
static void close_everything(struct server *server)
{
	if (server->closed)
		return;
	server->closed = true;
	close_handle((uv_handle_t *)&server->sigterm);
	close_handle((uv_handle_t *)&server->sigint);
	close_handle((uv_handle_t *)&server->sighup);
	close_handle((uv_handle_t *)&server->watchdog);
	/* An index worker or a thread that takes memory may still be at work. */
	uv_unref((uv_handle_t *)&server->deadline);
	service_finish(&server->service);
}

static void close_when_done(struct server *server)
{
	if (server->streams_gone && server->pool_stopped)
		close_everything(server);
}

static void on_streams_gone(struct service *service)
{
	struct server *server = (struct server *)service->loop->data;

	server->streams_gone = true;
	close_when_done(server);
}

static void on_pool_stopped(void *data)
{
	struct service *service = data;
	struct server *server = service->loop->data;

	server->pool_stopped = true;
	close_when_done(server);
}

static void on_leave(uv_timer_t *timer)
{
	log_warning("something still hangs; leaving all the same");
	/* Workers die with their parent (PR_SET_PDEATHSIG). */
	_exit(((struct server *)timer->loop->data)->exit_status);
}

static void on_deadline(uv_timer_t *timer)
{
	struct server *server = timer->loop->data;

	if (server->service.pool.count > 0)
		log_warning("a worker does not end; it is killed");
	pool_kill(&server->service.pool);
	uv_timer_start(&server->deadline, on_leave, LEAVE_AFTER_MS, 0);
}

static void stop(struct server *server)
{
	struct service *service = &server->service;

	if (service->stopping)
		return;
	service->stopping = true;
	notify_state("STOPPING=1");
	listener_stop(&server->listener);
	while (service->sessions != NULL)
		session_dismiss(service->sessions);
	uv_timer_start(&server->deadline, on_deadline, KILL_AFTER_MS, 0);
	if (service->stream_count == 0)
		server->streams_gone = true;
	pool_stop(&service->pool, on_pool_stopped);
	close_when_done(server);
}

static void on_terminate(uv_signal_t *handle, int signal)
{
	log_info("%s: going away", signal == SIGTERM ? "SIGTERM" : "SIGINT");
	stop(handle->loop->data);
}

static void on_session_closed(struct service *service)
{
	listener_resume(&((struct server *)service->loop->data)->listener);
}

static void on_broken(struct service *service, const char *why)
{
	struct server *server = service->loop->data;

	log_error("%s; stokerd cannot work", why);
	server->exit_status = EXIT_FAILURE;
	stop(server);
}

/* ---- applying the configuration ---- */

/* All data sets, and what they may also read: strings borrowed from `config`, NULL without memory. */
static char **list_roots(const struct config *config, size_t *count)
{
	size_t most = 0;
	char **roots;

	for (size_t i = 0; i < config->dataset_count; i++)
		most += 1 + config->datasets[i].also_read_count;
	roots = calloc(most + 1, sizeof(*roots));
	*count = 0;
	for (size_t i = 0; roots != NULL && i < config->dataset_count; i++) {
		const struct config_dataset *dataset = &config->datasets[i];

		roots[(*count)++] = dataset->path;
		for (size_t k = 0; k < dataset->also_read_count; k++)
			roots[(*count)++] = dataset->also_read[k];
	}
	return roots;
}

static struct worker_settings worker_settings(const struct server *server)
{
	return (struct worker_settings){
		.program = server->worker_program,
		.sandbox = server->config.sandbox == CONFIG_SANDBOX_REQUIRE ? "require" : "auto",
		.roots = (const char *const *)server->roots,
		.root_count = server->root_count,
		.image_timeout_ms = 1000 * server->config.image_timeout,
	};
}

static uint32_t choose_workers(const struct config *config)
{
	uint32_t cpus = resources_cpus();

	if (config->workers == CONFIG_WORKERS_AUTO)
		return cpus;
	if (config->workers == 0)
		log_warning(
			"workers = 0: images are decoded inside stokerd, without a sandbox and not "
			"ahead of the client; meant for debugging and comparison only");
	else if ((uint32_t)config->workers > cpus)
		log_warning("%d workers, but only %u CPUs may be used: %u workers are suggested",
			config->workers, cpus, cpus);
	return (uint32_t)config->workers;
}

/* Make what runs follow `config`, which the server takes. -ENOMEM: nothing has changed, and `config` is
 * still the caller's. */
static int apply_consume_config(struct server *server, struct config *config)
{
	struct service *service = &server->service;
	struct catalog_entry *entries = calloc(config->dataset_count + 1, sizeof(*entries));
	struct config previous = server->config;
	char **previous_roots = server->roots;
	struct worker_settings settings;
	size_t root_count;
	char **roots = list_roots(config, &root_count);
	int r;

	if (entries == NULL || roots == NULL) {
		free(entries);
		free(roots);
		return -ENOMEM;
	}
	for (size_t i = 0; i < config->dataset_count; i++)
		entries[i] = (struct catalog_entry){
			.name = config->datasets[i].name,
			.path = config->datasets[i].path,
			.options = {.take_hidden = config->datasets[i].take_hidden,
				.allow_empty = config->datasets[i].allow_empty,
				.classes = config->datasets[i].classes},
			.also_read = config->datasets[i].also_read,
			.also_read_count = config->datasets[i].also_read_count,
		};
	server->config = *config;
	server->roots = roots;
	server->root_count = root_count;
	log_set_level(config->log_level);
	settings = worker_settings(server);
	service->budget.limit = config->memory != 0 ? config->memory : resources_memory() / 2;
	service->catalog.max_memory = service->budget.limit;
	service->catalog.max_pixels = config->max_pixels;
	service->catalog.index_dir = config->index_dir;
	service->catalog.program = settings.program;
	service->catalog.sandbox = settings.sandbox;
	service->pool.target = choose_workers(config);
	pool_configure(&service->pool, &settings);
	r = catalog_set(&service->catalog, entries, config->dataset_count);
	if (r < 0)
		log_error("out of memory; the data sets stay as they were");
	free(entries);
	free(previous_roots);
	config_finish(&previous);
	return 0;
}

/* A data set's path may not have existed when the workers were confined to those that did. */
static void on_recovered(void *data)
{
	struct server *server = data;
	struct worker_settings settings = worker_settings(server);

	pool_configure(&server->service.pool, &settings);
}

static void on_reload(uv_signal_t *handle, int signal)
{
	struct server *server = handle->loop->data;
	struct config next = CONFIG_NULL;
	bool moved;
	struct error_text error;
	struct timespec now;

	(void)signal;
	if (server->service.stopping)
		return;
	clock_gettime(CLOCK_MONOTONIC, &now);
	notify_state("RELOADING=1\nMONOTONIC_USEC=%llu",
		(unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000);
	if (config_reload(&server->config, &next, &error) != 0) {
		log_error("%s; the configuration stays as it was", error.text);
		notify_state("READY=1");
		return;
	}
	moved = strcmp(next.socket_path, server->config.socket_path) != 0;
	if (apply_consume_config(server, &next) < 0) {
		log_error("out of memory; the configuration stays as it was");
		config_finish(&next);
		notify_state("READY=1");
		return;
	}
	if (moved)
		log_notice("a new socket path takes effect when stokerd is restarted");
	pool_kick(&server->service.pool);
	log_info("configuration reloaded: %u workers, %zu data sets", server->service.pool.target,
		server->config.dataset_count);
	notify_state("READY=1");
}

/* ---- the beginning ---- */

static void on_watchdog(uv_timer_t *timer)
{
	(void)timer;
	notify_state("WATCHDOG=1");
}

static int listen_for_clients(struct server *server, struct error_text *error)
{
	int fd = notify_listen_fd(), r;

	if (fd < -1)
		return error_set(error, fd, "the service manager passed more than one socket");
	if (fd >= 0)
		r = listener_adopt_consume_fd(&server->listener, fd, error);
	else
		r = listener_bind(&server->listener, server->config.socket_path, error);
	if (r < 0)
		return r;
	return listener_start(&server->listener, &server->service, error);
}

/* Each client takes a descriptor or two; the soft limit is a default for select(2), which is not used
 * here. */
static void raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max < 65536 ? limit.rlim_max : 65536;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static void init_handles(struct server *server)
{
	uv_signal_init(&server->loop, &server->sigterm);
	uv_signal_init(&server->loop, &server->sigint);
	uv_signal_init(&server->loop, &server->sighup);
	uv_timer_init(&server->loop, &server->watchdog);
	uv_timer_init(&server->loop, &server->deadline);
	uv_signal_start(&server->sigterm, on_terminate, SIGTERM);
	uv_signal_start(&server->sigint, on_terminate, SIGINT);
	uv_signal_start(&server->sighup, on_reload, SIGHUP);
	signal(SIGPIPE, SIG_IGN);
}

/* Where stoker-worker is: $STOKER_WORKER, or beside this program in a build tree, or installed. The
 * result is the caller's; NULL without memory. */
static char *find_worker(void)
{
	static const char in_build_tree[] = "worker/stoker-worker";
	const char *named = getenv("STOKER_WORKER");
	char path[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - sizeof(in_build_tree));

	if (named != NULL)
		return strdup(named);
	while (length > 0 && path[length - 1] != '/')
		length--;
	if (length > 0) {
		strcpy(path + length, in_build_tree);
		if (access(path, X_OK) == 0)
			return strdup(path);
	}
	return strdup(STOKER_LIBEXECDIR "/stoker-worker");
}

int server_init(struct server *server, struct config *config, struct error_text *error)
{
	uint64_t watchdog = notify_watchdog_ms();
	struct config first = *config;
	int r;

	memset(server, 0, sizeof(*server));
	server->config = *config;
	server->listener = (struct listener)LISTENER_NULL;
	raise_descriptor_limit();
	uv_loop_init(&server->loop);
	server->loop.data = server;
	init_handles(server);
	r = service_init(&server->service, &server->loop, STOKER_VERSION);
	server->service.on_idle = on_streams_gone;
	server->service.on_broken = on_broken;
	server->service.on_session_closed = on_session_closed;
	server->service.catalog.recovered = on_recovered;
	server->service.catalog.data = server;
	server->worker_program = find_worker();
	if (r < 0 || server->worker_program == NULL)
		return error_set(error, -ENOMEM, "out of memory");
	if (access(server->worker_program, X_OK) < 0)
		return error_set(error, -errno,
			"%s: %s: the installation is incomplete (STOKER_WORKER "
			"names another place)",
			server->worker_program, strerror(errno));
	r = listen_for_clients(server, error);
	if (r < 0)
		return r;
	server->config = (struct config)CONFIG_NULL;
	if (apply_consume_config(server, &first) < 0) {
		server->config = first;
		return error_set(error, -ENOMEM, "out of memory");
	}
	if (watchdog > 0)
		uv_timer_start(&server->watchdog, on_watchdog, 0, watchdog);
	return 0;
}

int server_run(struct server *server)
{
	const char *socket = server->listener.path;

	log_info("stokerd %s listens at %s, %u workers", STOKER_VERSION,
		socket != NULL ? socket : "an inherited socket", server->service.pool.target);
	notify_state("READY=1\nSTATUS=%u workers, %zu data sets", server->service.pool.target,
		server->config.dataset_count);
	uv_run(&server->loop, UV_RUN_DEFAULT);
	return server->exit_status;
}

void server_finish(struct server *server)
{
	if (!server->service.stopping)
		stop(server);
	uv_run(&server->loop, UV_RUN_DEFAULT);
	close_handle((uv_handle_t *)&server->deadline);
	uv_run(&server->loop, UV_RUN_DEFAULT);
	if (uv_loop_close(&server->loop) < 0)
		log_error("the loop still has open handles");
	config_finish(&server->config);
	free(server->worker_program);
	free(server->roots);
}
