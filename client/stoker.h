/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * libstoker: batches from stokerd.
 *
 *   struct stoker *stoker = stoker_create();
 *   struct stoker_options options;
 *   struct stoker_stream *stream;
 *   struct stoker_batch *batch;
 *
 *   stoker_connect(stoker, NULL, "my-trainer");
 *   stoker_options_init(&options);
 *   options.dataset = "train";
 *   options.transforms = "Grayscale(), ToTensor(), Normalize((0.5,), (0.5,))";
 *   options.shuffle = true;
 *   options.epochs = 10;
 *   stoker_open(stoker, &options, &stream);
 *   while ((r = stoker_next(stream, -1, &batch)) > 0) {
 *           if (r == STOKER_EPOCH_END)
 *                   continue;
 *           train(batch->data, batch->rows);
 *           stoker_release(batch);
 *   }
 *   stoker_destroy(stoker);
 *
 * One connection carries any number of streams (16 by default of the server) and is used by one
 * thread at a time; several connections need no locks between them. The library starts no thread,
 * keeps no global state, writes nothing to the terminal and never raises SIGPIPE.
 *
 * Functions return 0 or a positive result, or a negative errno; stoker_message() then has a sentence
 * that names the object and the way out. After -ECONNRESET, -ESHUTDOWN, -EBADMSG and -EMFILE, and
 * after any other error with which the daemon ends the connection, it is dead: every further call
 * returns the same, and batches in hand stay readable.
 */
#ifdef __cplusplus
extern "C" {
#endif

#define STOKER_API __attribute__((visibility("default")))

struct stoker;
struct stoker_stream;

enum stoker_dtype {
	STOKER_U8 = 1,
	STOKER_F16 = 2,  /* IEEE 754 half */
	STOKER_BF16 = 3, /* the upper half of a float */
	STOKER_F32 = 4,
	STOKER_F64 = 5, /* of STOKER_ROWS_PARAMETERS only */
};

enum stoker_layout {
	STOKER_NCHW = 1,
	STOKER_NHWC = 2,
};

enum stoker_payload {
	STOKER_SHARED = 1, /* pixels stay in the daemon's shared memory: nothing is copied */
	STOKER_INLINE = 2, /* pixels come through the socket */
};

/* What becomes of a sample that cannot be delivered: no picture, unreadable, of another size. */
enum stoker_on_bad_sample {
	STOKER_BAD_ERROR = 0,   /* the stream ends with an error that names the file */
	STOKER_BAD_MASK = 1,    /* its row is zeroed and marked STOKER_ROW_MASKED */
	STOKER_BAD_REPLACE = 2, /* another sample of the data set stands in, chosen by seed, epoch
	                         * and sample alone, marked STOKER_ROW_REPLACED; after some bad
	                         * choices in a row the row is masked */
};

/* What is in the rows of a stream. */
enum stoker_rows {
	STOKER_ROWS_PIXELS = 0,     /* transformed samples */
	STOKER_ROWS_DIGESTS = 1,    /* struct stoker_digest of each decoded sample */
	STOKER_ROWS_PARAMETERS = 2, /* what the random transforms draw, doubles; see PROTOCOL.md */
};

/* A row of STOKER_ROWS_DIGESTS; little endian, like all rows. Such a stream has dtype STOKER_U8 and no
 * transforms, samples may differ in size, and none of them has to be a picture at all: with
 * on_bad_sample = STOKER_BAD_MASK it tells good from bad. */
struct stoker_digest {
	uint64_t xxh3; /* XXH3-64 with seed 0 of the picture's RGB pixels, height x width x 3 bytes,
	                * which are those of Pillow's convert('RGB').tobytes() */
	uint32_t width, height;
	uint64_t bytes; /* of the encoded picture */
};

/* What became of the sample that a row was meant for. */
enum stoker_row_status {
	STOKER_ROW_OK = 0,
	STOKER_ROW_MASKED = 1,   /* all bytes 0; index and label are those of the bad sample */
	STOKER_ROW_REPLACED = 2, /* index and label are those of the sample that stands in */
};

/* ---- connection ---- */

/* A new, unconnected object, or NULL without memory. */
STOKER_API struct stoker *stoker_create(void);

/* Close the connection, its streams and their batches; NULL is fine. */
STOKER_API void stoker_destroy(struct stoker *stoker);

/* Connect to `socket` (NULL: $STOKER_SOCKET, else $XDG_RUNTIME_DIR/stoker/stoker.sock if it exists,
 * else /run/stoker/stoker.sock) and greet the daemon under `name` (at most 64 bytes; NULL: the
 * program's name). Waits up to 10 s for the answer. -ENOENT, -ECONNREFUSED: no daemon; -EACCES;
 * -ENAMETOOLONG: over 107 bytes; -EPROTONOSUPPORT: the daemon speaks another version; -EUSERS: it has
 * too many clients; -ETIMEDOUT; -EINVAL: `socket` is "" or `name` is not fit; -EISCONN; -EBUSY: streams
 * of a lost connection are still open. After a failure the same object can try again. */
STOKER_API int stoker_connect(struct stoker *stoker, const char *socket, const char *name);

/* The last error in words, "" at first. Valid until the next call on `stoker`. */
STOKER_API const char *stoker_message(const struct stoker *stoker);

/* The socket, for poll(2): call stoker_next(stream, 0, ...) when it is readable. -1 unconnected.
 * Batches may be waiting inside the library, so poll only after stoker_next returned STOKER_AGAIN. */
STOKER_API int stoker_fd(const struct stoker *stoker);

/* The path that stoker_connect(NULL) would use, into `path`. -ENAMETOOLONG. */
STOKER_API int stoker_default_socket(char *path, size_t size);

/* ---- streams ---- */

struct stoker_cursor {
	uint64_t epoch;
	uint64_t position; /* samples of this rank delivered in this epoch */
	uint64_t seed;
	bool shuffle;
	uint32_t rank, world;
	bool shard_drop, drop_last;
	uint64_t fingerprint; /* of the data set's index, and of the part of it */
};

struct stoker_options {
	const char *dataset; /* or a part of one: "train[:90%]", see PROTOCOL.md */
	uint32_t batch_size; /* 64 */
	/* "ToTensor()"; NULL or "": none. As a torchvision user writes them, Compose([...]) around them or
	 * not: Resize CenterCrop Pad Grayscale RandomCrop RandomResizedCrop RandomHorizontalFlip
	 * RandomVerticalFlip RandomRotation RandomAffine ColorJitter RandomGrayscale GaussianBlur
	 * ToTensor PILToTensor ConvertImageDtype Normalize RandomErasing. What is wrong with them is
	 * said by line and column in stoker_message. */
	const char *transforms;
	enum stoker_dtype dtype;   /* STOKER_F32; STOKER_U8 takes pipelines that end in bytes, the
				    * others those that end in floats */
	enum stoker_layout layout; /* STOKER_NCHW */
	bool shuffle;         /* false; true = torch DistributedSampler's order, anew each epoch */
	uint64_t seed;        /* 0; of the order, and of random transforms */
	uint32_t rank, world; /* 0 of 1 */
	bool shard_drop;      /* false; drop the tail instead of padding shards */
	bool drop_last;       /* false; drop the last short batch */
	uint64_t first_epoch; /* 0 */
	uint64_t epochs;      /* 1; 0 = endless */
	uint32_t depth;       /* 0 = the daemon's choice of batches in flight */
	int payload;          /* 0 = shared where possible; or enum stoker_payload */
	const struct stoker_cursor *start;       /* NULL, or go on here */
	enum stoker_on_bad_sample on_bad_sample; /* STOKER_BAD_ERROR */
	enum stoker_rows rows; /* STOKER_ROWS_PIXELS; STOKER_ROWS_PARAMETERS takes STOKER_F64 */
	bool exif_orientation; /* false; turn pictures as their EXIF data says */
	bool grey16_clip; /* false: the high byte of 16-bit grey; true: clipped at 255, as in Pillow */
	/* Called about every second while the data set is being indexed; may be NULL. It must not
	 * call this library. */
	void (*indexing)(uint64_t samples, void *data);
	void *indexing_data;
};

/* The defaults given above. */
STOKER_API void stoker_options_init(struct stoker_options *options);

struct stoker_info {
	uint32_t shape[3]; /* of one sample: C,H,W (NCHW) or H,W,C (NHWC); of
			    * STOKER_ROWS_PARAMETERS 1, transforms, 16 in place of C,H,W */
	enum stoker_dtype dtype;
	enum stoker_layout layout;
	enum stoker_payload payload;
	uint32_t batch_size;
	uint64_t row_bytes;       /* of one sample */
	uint64_t dataset_samples; /* in the data set, or in the part of it */
	uint64_t epoch_samples;   /* this rank's, per epoch */
	uint64_t epoch_batches;   /* this rank's, per epoch */
	uint32_t classes;         /* labels are 0 .. classes-1 */
	uint32_t depth;           /* batches in flight, as granted */
	uint64_t fingerprint;     /* of the data set's index, and of the part of it */
	const void *arena;  /* shared payload: the whole read-only mapping, to register with CUDA */
	size_t arena_bytes; /* 0 with inline payload */
};

/* Open a stream and wait for the answer; while the data set is being indexed the wait goes on, else
 * it ends after 30 s with -ETIMEDOUT. -ENOENT: no such data set; -EINVAL: an option is out of range
 * or the transforms do not parse or fit; -ENOMEM: the arena does not fit into the daemon's memory;
 * -ENODATA: the data set cannot be indexed; -ESTALE: the cursor belongs elsewhere; -EUSERS: limits;
 * -EMFILE: no descriptor is left for the shared memory. */
STOKER_API int stoker_open(
	struct stoker *stoker, const struct stoker_options *options, struct stoker_stream **stream);

/* End the stream. Batches not yet released become invalid. NULL is fine. */
STOKER_API void stoker_close(struct stoker_stream *stream);

/* Borrowed until stoker_close. */
STOKER_API const struct stoker_info *stoker_stream_info(const struct stoker_stream *stream);

enum stoker_next_result {
	STOKER_END = 0,       /* the last epoch is over */
	STOKER_BATCH = 1,     /* *batch is set */
	STOKER_EPOCH_END = 2, /* between two epochs, and after the last one */
	STOKER_AGAIN = 3,     /* nothing within timeout_ms */
};

/* Why a row is not STOKER_ROW_OK. */
struct stoker_bad_row {
	uint32_t row;
	uint64_t sample;    /* that the row was meant for */
	const char *reason; /* "picture", "unreadable", "size", "killer" or "other" */
	const char *text;   /* what exactly is wrong with it, without its name */
};

/* Samples of one batch. Read-only; valid until released, also across stoker_seek. */
struct stoker_batch {
	const void *data;        /* rows x row_bytes pixels; 4096-aligned with shared payload */
	const int32_t *labels;   /* rows */
	const uint64_t *samples; /* rows: index of each sample in the data set */
	uint32_t rows;           /* 1 .. batch_size */
	uint64_t epoch;
	uint64_t step;               /* 0 .. epoch_batches-1 */
	struct stoker_cursor cursor; /* after this batch: store it with the checkpoint */
	uint32_t bad;                /* rows that are not STOKER_ROW_OK */
	/* rows x enum stoker_row_status, or NULL when every row is OK. Rows that are masked hold no
	 * picture: leave them out of the loss. */
	const uint8_t *statuses;
	/* Of the first 256 of these rows, in their order. A row of which the daemon does not know why
	 * is missing. */
	const struct stoker_bad_row *bad_rows;
	uint32_t bad_row_count;
};

/* The next batch, in order. timeout_ms < 0 waits for ever, 0 does not wait. Negative: -EIO when a
 * sample could not be decoded or the stream has ended by another error (the message names the file);
 * -ESHUTDOWN when the daemon is going away. Several batches may be held, up to info->depth: with all
 * of them held nothing more can come but the end of an epoch, and -EDEADLK says so instead of
 * waiting. */
STOKER_API int stoker_next(
	struct stoker_stream *stream, int timeout_ms, struct stoker_batch **batch);

/* Give a batch back. Its memory may be refilled from now on. NULL is fine. Never fails: a dead
 * connection shows at the next stoker_next. */
STOKER_API void stoker_release(struct stoker_batch *batch);

/* Go on at `cursor`: batches not yet returned are dropped; those in hand stay valid and must still be
 * released. -ESTALE: the cursor belongs elsewhere, and the stream stays where it is; -EIO: the stream
 * has ended by an error; -ETIMEDOUT after 30 s. */
STOKER_API int stoker_seek(struct stoker_stream *stream, const struct stoker_cursor *cursor);

/* ---- classes and samples ---- */

/* The classes of a data set, in the order of their labels: the class with label i is list[i]. */
struct stoker_class {
	char *name; /* bytes as they are, terminated; see stoker_escape */
	size_t length;
	uint64_t samples; /* of this class */
};

struct stoker_classes {
	struct stoker_class *list;
	uint32_t count;
	uint64_t fingerprint; /* of the data set's index, as in struct stoker_info */
};

/* Ask for the classes of `dataset`, or of a part of one; free the answer with stoker_classes_free. Waits
 * as stoker_open does: -ENOENT, -ENODATA, -EINVAL (no such part), -ETIMEDOUT; -ESTALE: the data set was
 * indexed anew meanwhile; -ENOMEM. */
STOKER_API int stoker_classes(
	struct stoker *stoker, const char *dataset, struct stoker_classes **classes);
STOKER_API void stoker_classes_free(struct stoker_classes *classes);

struct stoker_sample {
	uint64_t index; /* in the data set, as in stoker_batch.samples */
	int32_t label;
	char *path; /* "/ROOT/FILE"; "/ROOT/ARCHIVE.tar:MEMBER"; "/FILE#17" of an IDX file. Bytes as they
	             * are, terminated */
	size_t length;
};

struct stoker_samples {
	struct stoker_sample *list;
	size_t count;
	uint64_t first, total; /* position of list[0]; how many the data set has */
	uint64_t fingerprint;
};

/* Ask for `count` samples of `dataset` from position `first` on; fewer come only at the end of the data
 * set, none behind it. With count = 0 as many come as one answer of the daemon holds (thousands): to list
 * all, go on at first + count. Free with stoker_samples_free. Errors as for stoker_classes. */
STOKER_API int stoker_samples(struct stoker *stoker, const char *dataset, uint64_t first,
	uint64_t count, struct stoker_samples **samples);
STOKER_API void stoker_samples_free(struct stoker_samples *samples);

/* A copy of a name or path for people: control bytes and what is no UTF-8 become \xHH, a backslash is
 * doubled. The caller frees it. NULL without memory. */
STOKER_API char *stoker_escape(const void *bytes, size_t length);

/* ---- looking at the daemon ---- */

struct stoker_worker_status {
	uint32_t pid;
	uint64_t samples;
	uint64_t busy_ms;
	uint32_t queued;
};

/* Samples of a data set that were found bad for one reason. */
struct stoker_bad_count {
	const char *reason; /* "picture", "unreadable", "size", "killer" or "other" */
	uint64_t samples;
};

struct stoker_bad_sample {
	uint64_t sample; /* index in the data set */
	char *name;      /* path, escaped for people */
	const char *reason;
	char *text; /* what exactly is wrong */
};

struct stoker_dataset_status {
	char *name;  /* escaped for people */
	char *path;  /* escaped for people */
	char *kind;  /* "folder", "idx", "manifest", "tar" or "" */
	char *state; /* "indexing", "ready", "failed" or "unknown" */
	char *error;
	uint64_t samples;
	uint32_t classes, width, height, channels;
	/* Since it was indexed: */
	uint64_t bad_samples; /* that were found bad; each counts once */
	uint64_t bad_rows;    /* times that one was met, over all streams and epochs */
	struct stoker_bad_count *bad_counts;
	size_t bad_count_count;
	struct stoker_bad_sample *bad; /* the first ones, at most 100 */
	size_t bad_listed;
};

struct stoker_stream_status {
	uint32_t client_pid;
	char *client;
	char *dataset; /* escaped for people */
	uint64_t epoch, step, epoch_batches;
	uint32_t batch_size, depth, filling, ready, lent;
	uint64_t batches, samples, arena_bytes;
	const char *payload; /* "shared" or "inline" */
	uint32_t rank, world;
};

struct stoker_status {
	char *version;
	uint32_t pid;
	uint64_t uptime_ms;
	uint32_t workers; /* configured */
	uint32_t clients;
	char *sandbox;
	uint64_t memory_limit, memory_used;
	uint64_t worker_deaths;
	struct stoker_worker_status *worker;
	size_t worker_count;
	struct stoker_dataset_status *datasets;
	size_t dataset_count;
	struct stoker_stream_status *streams;
	size_t stream_count;
	bool truncated;
};

/* Ask the daemon; free the answer with stoker_status_free. Waits up to 10 s. */
STOKER_API int stoker_status(struct stoker *stoker, struct stoker_status **status);
STOKER_API void stoker_status_free(struct stoker_status *status);

/* The library's version, e.g. "0.1.0". */
STOKER_API const char *stoker_version(void);

#ifdef __cplusplus
}
#endif
