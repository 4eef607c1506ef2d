/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config.h"
#include "daemon/server.h"
#include "daemon/util/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	struct config config = CONFIG_NULL;
	struct error_text error = {""};
	struct server server;
	int r;

	log_open("stokerd", LOG_LEVEL_INFO);
	r = config_load(&config, argc, argv, &error);
	if (r == CONFIG_EXIT)
		return EXIT_SUCCESS;
	if (r < 0) {
		fprintf(stderr, "stokerd: %s\n", error.text);
		return r == -EINVAL ? 2 : EXIT_FAILURE;
	}
	if (config.check_only) {
		config_print(&config, stdout);
		printf("# configuration is valid\n");
		config_finish(&config);
		return EXIT_SUCCESS;
	}
	log_set_level(config.log_level);
	r = server_init(&server, &config, &error);
	if (r < 0) {
		log_error("%s", error.text);
		server_finish(&server);
		return EXIT_FAILURE;
	}
	r = server_run(&server);
	server_finish(&server);
	return r;
}
