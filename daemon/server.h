/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/config.h"
#include "daemon/serve/listener.h"
#include "daemon/serve/service.h"
#include "daemon/util/error.h"

#include <uv.h>

/*
 * The daemon: one loop, and everything that hangs on it.
 *
 *   server_init(&server, &config)   takes the config; listens, starts workers, indexes
 *   server_run(&server)             until SIGTERM or SIGINT
 *   server_finish(&server)
 *
 * SIGHUP reads the config again. SIGTERM tells clients, ends the workers and returns within 2 s.
 */
struct server {
	uv_loop_t loop;
	struct config config;
	struct service service;
	struct listener listener;
	uv_signal_t sigterm, sigint, sighup;
	uv_timer_t watchdog, deadline;
	char *worker_program;
	char **roots; /* what workers may read; borrowed strings of config */
	size_t root_count;
	bool streams_gone, pool_stopped, closed;
	int exit_status;
};

/* 0 or -errno with a sentence; then server_finish is due all the same. */
int server_init(struct server *server, struct config *config, struct error_text *error);

/* The exit status of the program. */
int server_run(struct server *server);
void server_finish(struct server *server);
