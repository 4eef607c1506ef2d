/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config.h"
#include "daemon/config_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { ARGS_MAX = 24 };

static char directory[] = "/tmp/stoker-test-config-XXXXXX";
static char config_path[64];
static struct error_text error;

static void write_config(const char *text)
{
	int fd = open(config_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

/* Split `line` at spaces and load it as a command line. */
static int load(struct config *config, const char *line)
{
	static char words[1024];
	static char *argv[ARGS_MAX + 1];
	int argc = 0;

	snprintf(words, sizeof(words), "stokerd %s", line);
	for (char *word = strtok(words, " "); word != NULL; word = strtok(NULL, " ")) {
		assert_true(argc < ARGS_MAX);
		argv[argc++] = word;
	}
	argv[argc] = NULL;
	memset(&error, 0, sizeof(error));
	return config_load(config, argc, argv, &error);
}

static int load_file(struct config *config, const char *text)
{
	char line[128];

	write_config(text);
	snprintf(line, sizeof(line), "--config %s --socket /run/test.sock", config_path);
	return load(config, line);
}

static void assert_says(const char *part)
{
	if (strstr(error.text, part) == NULL)
		fail_msg("'%s' does not say '%s'", error.text, part);
}

static void assert_refused(const char *line, const char *part)
{
	struct config config;

	assert_int_equal(load(&config, line), -EINVAL);
	assert_says(part);
}

static void assert_file_refused(const char *text, const char *part)
{
	struct config config;

	assert_int_equal(load_file(&config, text), -EBADMSG);
	assert_says(config_path);
	assert_says(part);
}

static void test_defaults(void **state)
{
	struct config config;

	(void)state;
	assert_int_equal(load(&config, "--socket /run/test.sock"), 0);
	assert_int_equal(config.workers, CONFIG_WORKERS_AUTO);
	assert_int_equal(config.memory, 0);
	assert_null(config.index_dir);
	assert_int_equal(config.sandbox, CONFIG_SANDBOX_AUTO);
	assert_int_equal(config.log_level, LOG_LEVEL_INFO);
	assert_int_equal(config.image_timeout, 60);
	assert_int_equal(config.max_pixels, 178956970);
	assert_false(config.check_only);
	assert_int_equal(config.dataset_count, 0);
	config_finish(&config);
	config_finish(&config);
}

static void test_flags(void **state)
{
	struct config config;
	char expected[PATH_MAX];

	(void)state;
	assert_int_equal(
		load(&config,
			"--socket /a/b.sock --workers=4 --memory 512M --sandbox require "
			"--index-dir saved/ --log-level debug --image-timeout 7 --max-pixels 1000000 "
			"--check-config "
			"--dataset train=./data/train/ "
			"--dataset v.1-x_2=/val"),
		0);
	assert_string_equal(config.socket_path, "/a/b.sock");
	assert_int_equal(config.workers, 4);
	assert_int_equal(config.memory, UINT64_C(512) << 20);
	assert_int_equal(config.sandbox, CONFIG_SANDBOX_REQUIRE);
	assert_int_equal(config.log_level, LOG_LEVEL_DEBUG);
	assert_int_equal(config.image_timeout, 7);
	assert_int_equal(config.max_pixels, 1000000);
	assert_true(config.check_only);
	assert_int_equal(config.dataset_count, 2);
	snprintf(expected, sizeof(expected), "%s/saved", config.directory);
	assert_string_equal(config.index_dir, expected);
	snprintf(expected, sizeof(expected), "%s/data/train", config.directory);
	assert_string_equal(config_find_dataset(&config, "train")->path, expected);
	assert_string_equal(config_find_dataset(&config, "v.1-x_2")->path, "/val");
	assert_null(config_find_dataset(&config, "v.1"));
	config_finish(&config);
}

static void test_file(void **state)
{
	struct config config;
	char expected[PATH_MAX];

	(void)state;
	assert_int_equal(load_file(&config, "# comment\n"
					    "[stokerd]\n"
					    "workers = 3\n"
					    "memory = 2G\n"
					    "index_dir = saved\n"
					    "sandbox=require\n"
					    "log_level = warning\n"
					    "image_timeout = 86400\n"
					    "\n"
					    "[dataset train]\n"
					    "path = images/train\n"
					    "also_read = /mnt/a; sub/b ;/mnt/semi\\;colon\n"
					    "[dataset val]\n"
					    "hidden = take\n"
					    "classes = classes.txt\n"
					    "allow_empty = yes\n"
					    "path = /data/a b;c\n"),
		0);
	assert_string_equal(config.config_path, config_path);
	assert_int_equal(config.workers, 3);
	assert_int_equal(config.memory, UINT64_C(2) << 30);
	snprintf(expected, sizeof(expected), "%s/saved", directory);
	assert_string_equal(config.index_dir, expected);
	assert_int_equal(config.sandbox, CONFIG_SANDBOX_REQUIRE);
	assert_int_equal(config.log_level, LOG_LEVEL_WARNING);
	assert_int_equal(config.image_timeout, 86400);
	assert_int_equal(config.dataset_count, 2);
	assert_string_equal(config.datasets[0].name, "train");
	snprintf(expected, sizeof(expected), "%s/images/train", directory);
	assert_string_equal(config.datasets[0].path, expected);
	assert_int_equal(config.datasets[0].also_read_count, 3);
	assert_string_equal(config.datasets[0].also_read[0], "/mnt/a");
	snprintf(expected, sizeof(expected), "%s/sub/b", directory);
	assert_string_equal(config.datasets[0].also_read[1], expected);
	assert_string_equal(config.datasets[0].also_read[2], "/mnt/semi;colon");
	assert_false(config.datasets[0].take_hidden);
	assert_false(config.datasets[0].allow_empty);
	assert_null(config.datasets[0].classes);
	assert_string_equal(config.datasets[1].path, "/data/a b;c");
	assert_true(config.datasets[1].take_hidden);
	assert_true(config.datasets[1].allow_empty);
	snprintf(expected, sizeof(expected), "%s/classes.txt", directory);
	assert_string_equal(config.datasets[1].classes, expected);
	config_finish(&config);
}

static void test_flags_win_over_file(void **state)
{
	struct config config;
	char line[PATH_MAX + 128];

	(void)state;
	write_config(
		"[stokerd]\nworkers = 3\nmemory = 64M\nsocket = s.sock\n"
		"[dataset train]\npath = /old\nalso_read = /more\n[dataset val]\npath = /val\n");
	snprintf(
		line, sizeof(line), "--workers auto --dataset train=/new --config %s", config_path);
	assert_int_equal(load(&config, line), 0);
	assert_int_equal(config.workers, CONFIG_WORKERS_AUTO);
	assert_int_equal(config.memory, UINT64_C(64) << 20);
	snprintf(line, sizeof(line), "%s/s.sock", directory);
	assert_string_equal(config.socket_path, line);
	assert_int_equal(config.dataset_count, 2);
	assert_string_equal(config.datasets[0].path, "/new");
	assert_int_equal(config.datasets[0].also_read_count, 0);
	assert_string_equal(config.datasets[1].path, "/val");
	config_finish(&config);
}

static void test_reload(void **state)
{
	struct config config, next;
	char line[PATH_MAX + 128];

	(void)state;
	write_config("[stokerd]\nworkers = 3\n");
	snprintf(line, sizeof(line), "--socket x.sock --memory 8M --config %s", config_path);
	assert_int_equal(load(&config, line), 0);
	write_config("[stokerd]\nworkers = 5\nmemory = 16M\n[dataset a]\npath = /a\n");
	assert_int_equal(config_reload(&config, &next, &error), 0);
	assert_int_equal(config.workers, 3);
	assert_int_equal(next.workers, 5);
	assert_int_equal(next.memory, UINT64_C(8) << 20);
	assert_string_equal(next.socket_path, config.socket_path);
	assert_int_equal(next.dataset_count, 1);
	config_finish(&next);
	write_config("[stokerd]\nworkers = many\n");
	assert_int_equal(config_reload(&config, &next, &error), -EBADMSG);
	assert_says(":2: workers: 'many' is not a number from 0 to 1024");
	assert_int_equal(unlink(config_path), 0);
	assert_int_equal(config_reload(&config, &next, &error), -ENOENT);
	assert_says(config_path);
	config_finish(&config);
}

static void test_wrong_flags(void **state)
{
	struct config config;
	char line[256];

	(void)state;
	assert_refused("--num_worker 3", "'--num_worker': did you mean '--workers'?");
	assert_refused("--worekrs=3", "did you mean '--workers'?");
	assert_refused("--data-set a=b", "did you mean '--dataset'?");
	assert_refused("--zebra", "unknown option '--zebra'; see 'stokerd --help'");
	assert_refused("-x", "unknown option '-x'");
	assert_refused("--workers", "option '--workers' needs a value");
	assert_refused("--check-config=yes", "takes no value");
	assert_refused("/data/train", "unexpected argument '/data/train'");
	assert_refused("--workers 1025", "--workers: '1025' is not a number from 0 to 1024");
	assert_refused("--workers -1", "--workers: '-1'");
	assert_refused("--workers 99999999999999999999", "--workers: '9999");
	assert_refused("--workers 4x", "--workers: '4x'");
	assert_refused("--memory 1023K", "--memory: '1023K' is too little");
	assert_refused("--memory 0", "--memory: '0' is too little");
	assert_refused("--memory 5MB", "--memory: '5MB' is not a size");
	assert_refused("--memory 99999999999G", "--memory: '99999999999G' is not a size");
	assert_refused("--index-dir=", "--index-dir: the path is empty");
	assert_refused("--sandbox yes", "--sandbox: 'yes' is neither 'require' nor 'auto'");
	assert_refused(
		"--log-level inof", "--log-level: unknown level 'inof'; did you mean 'info'?");
	assert_refused("--image-timeout 0", "--image-timeout: '0' is not a number of seconds");
	assert_refused("--image-timeout 86401", "from 1 to 86400");
	assert_refused("--max-pixels 0", "--max-pixels: '0' is not a number of pixels");
	assert_refused("--max-pixels 178956971", "from 1 to 178956970");
	assert_refused("--image-timeout 1.5", "--image-timeout: '1.5' is not");
	assert_refused("--dataset train", "'train' is not NAME=PATH");
	assert_refused("--dataset =/x", "no name");
	assert_refused("--dataset a=", "the path is empty");
	assert_refused("--dataset a/b=/x", "'a/b'");
	assert_refused("--dataset a=/x --dataset a=/y", "'a' is given twice: as /x and as /y");
	assert_refused("--config=", "--config: the path is empty");
	snprintf(line, sizeof(line), "--dataset %065d=/x", 0);
	assert_refused(line, "64 bytes");
	snprintf(line, sizeof(line), "--socket /%0107d", 0);
	assert_refused(line, "107 bytes, this one has 108");
	snprintf(line, sizeof(line), "--socket /%0106d", 0);
	assert_int_equal(load(&config, line), 0);
	config_finish(&config);
}

static void test_wrong_file(void **state)
{
	(void)state;
	assert_file_refused("[stokerd]\n\nworker = 3\n",
		":3: unknown key 'worker' in [stokerd]; did you mean 'workers'?");
	assert_file_refused("[stokerd]\nzebra = 3\n", ":2: unknown key 'zebra' in [stokerd]");
	assert_file_refused("[stokerd]\nworkers = 3\nworkers = 4\n",
		":3: 'workers' in [stokerd] stands twice, first in line 2");
	assert_file_refused("[dataset a]\npath=/a\n[stokerd]\n[dataset a]\npath=/b\n",
		":4: [dataset a] stands twice, first in line 1");
	assert_file_refused("[stoker]\n", ":1: unknown group [stoker]; did you mean [stokerd]?");
	assert_file_refused(
		"[datasets a]\n", ":1: unknown group [datasets a]; did you mean [dataset NAME]?");
	assert_file_refused(
		"[dataset]\n", ":1: unknown group [dataset]; did you mean [dataset NAME]?");
	assert_file_refused("[dataset a b]\npath=/x\n", ":1: 'a b': names of data sets");
	assert_file_refused("[dataset a]\n", ":1: [dataset a] has no 'path'");
	assert_file_refused("[dataset a]\npath = /x\nalsoread = /y\n", "did you mean 'also_read'?");
	assert_file_refused("[dataset a]\npath = /x\nworkers = 3\n", "'workers' in [stokerd]?");
	assert_file_refused("[dataset a]\npath = ~/x\n", "'~' is not replaced");
	assert_file_refused("workers = 3\n", ":1: 'workers = 3' stands before any group");
	assert_file_refused("[stokerd]\nworkers 3\n", ":2: 'workers 3' is not [GROUP]");
	assert_file_refused("[stokerd\nworkers = 3\n", ":1: '[stokerd' is not [GROUP]");
	assert_file_refused("[stokerd]\nworkers[de] = 3\n", ":2: unknown key 'workers[de]'");
	assert_file_refused("[stokerd]\nmemory = 4 # GiB\n", ":2: memory: '4 # GiB' is not a size");
	assert_file_refused("[stokerd]\nsocket = \\q\n", ":2: 'socket' in [stokerd]");
	assert_file_refused("[dataset a]\npath = /x\nalso_read = /a;\\q;\n", ":3: also_read: ");
	assert_file_refused("[dataset a]\npath = /x\nhidden = yes\n",
		":3: hidden: 'yes' is neither 'skip' nor 'take'");
	assert_file_refused("[dataset a]\nallow_empty = true\npath = /x\n",
		":2: allow_empty: 'true' is neither 'no' nor 'yes'");
	assert_file_refused(
		"[dataset a]\npath = /x\nclasses =\n", ":3: classes: the path is empty");
	assert_file_refused("[dataset a]\npath = /x\nclass = /y\n", "did you mean 'classes'?");
	assert_file_refused("[dataset a]\npath = /\xff\n", "not UTF-8");
}

static void test_unusable_file(void **state)
{
	struct config config;
	char line[PATH_MAX + 32];

	(void)state;
	snprintf(line, sizeof(line), "--config %s", directory);
	assert_int_equal(load(&config, line), -EISDIR);
	assert_says(directory);
	assert_int_equal(load(&config, "--config /nowhere/stokerd.conf"), -ENOENT);
	assert_says("/nowhere/stokerd.conf: No such file or directory");
}

static void test_print_is_a_config_file(void **state)
{
	char text[2][4096] = {"", ""};
	struct config config;

	(void)state;
	assert_int_equal(load_file(&config, "[stokerd]\nworkers = 0\nmemory = 3M\n"
					    "index_dir = /a\\\\b\n[dataset a]\n"
					    "path = /with\\\\back;semi\\s\nalso_read = /x\\;y;/z\n"
					    "hidden = take\nallow_empty = yes\nclasses = /c;\\s\n"),
		0);
	for (int i = 0; i < 2; i++) {
		FILE *out = fmemopen(text[i], sizeof(text[i]), "w");

		assert_non_null(out);
		config_print(&config, out);
		fclose(out);
		config_finish(&config);
		assert_int_equal(load_file(&config, text[i]), 0);
	}
	config_finish(&config);
	assert_non_null(strstr(text[0], "index_dir = /a\\\\b\n"));
	assert_non_null(strstr(text[0], "path = /with\\\\back;semi\\s\n"));
	assert_non_null(strstr(text[0], "hidden = take\nallow_empty = yes\nclasses = /c;\\s\n"));
	assert_string_equal(text[0], text[1]);
}

static void test_user_instance(void **state)
{
	struct config config;
	char expected[PATH_MAX];

	(void)state;
	if (geteuid() == 0 && seteuid(65534) < 0)
		skip();
	setenv("XDG_CONFIG_HOME", directory, 1);
	setenv("XDG_RUNTIME_DIR", directory, 1);
	assert_int_equal(load(&config, ""), 0);
	assert_null(config.config_path);
	snprintf(expected, sizeof(expected), "%s/stoker/stoker.sock", directory);
	assert_string_equal(config.socket_path, expected);
	config_finish(&config);
	unsetenv("XDG_RUNTIME_DIR");
	assert_int_equal(load(&config, ""), -ENOENT);
	assert_says("--socket");
	setenv("XDG_RUNTIME_DIR", "not/absolute", 1);
	assert_int_equal(load(&config, ""), -ENOENT);
	if (getuid() == 0)
		assert_int_equal(seteuid(0), 0);
}

static void test_sizes(void **state)
{
	uint64_t bytes;

	(void)state;
	assert_int_equal(config_parse_size("9223372036854775807", &bytes), 0);
	assert_true(bytes == INT64_MAX);
	assert_int_equal(config_parse_size("9223372036854775808", &bytes), -ERANGE);
	assert_int_equal(config_parse_size("8589934592G", &bytes), -ERANGE);
	assert_int_equal(config_parse_size("3K", &bytes), 0);
	assert_int_equal(bytes, 3072);
	assert_int_equal(config_parse_size("", &bytes), -EINVAL);
	assert_int_equal(config_parse_size("-1", &bytes), -EINVAL);
	assert_int_equal(config_parse_size(" 1", &bytes), -EINVAL);
	assert_int_equal(config_parse_size("1KK", &bytes), -EINVAL);
	assert_int_equal(config_parse_size("1k", &bytes), -EINVAL);
}

static int setup(void **state)
{
	(void)state;
	if (mkdtemp(directory) == NULL)
		return -1;
	chmod(directory, 0755); /* one test reads as another user */
	snprintf(config_path, sizeof(config_path), "%s/stokerd.conf", directory);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(config_path);
	return rmdir(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_flags),
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_flags_win_over_file),
		cmocka_unit_test(test_reload),
		cmocka_unit_test(test_wrong_flags),
		cmocka_unit_test(test_wrong_file),
		cmocka_unit_test(test_unusable_file),
		cmocka_unit_test(test_print_is_a_config_file),
		cmocka_unit_test(test_user_instance),
		cmocka_unit_test(test_sizes),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
