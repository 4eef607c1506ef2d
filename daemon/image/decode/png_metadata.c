/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/decode/png_metadata.h"

#include "daemon/image/decode/exif.h"
#include "daemon/util/ownership.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
	TEXT_MAX = 1 << 20, /* bytes of a text, unpacked; as in Pillow */
};

static bool is(const struct png_chunk *chunk, const char *type)
{
	return memcmp(chunk->type, type, 4) == 0;
}

static bool has_key(const struct png_chunk *chunk, const char *key)
{
	size_t length = strlen(key) + 1;

	return chunk->length >= length && memcmp(chunk->data, key, length) == 0;
}

void png_metadata_note(struct png_metadata *metadata, const struct png_chunk *chunk)
{
	if (metadata->complete)
		return;
	if (is(chunk, "eXIf"))
		metadata->exif = *chunk;
	if (!is(chunk, "tEXt") && !is(chunk, "zTXt") && !is(chunk, "iTXt"))
		return;
	if (has_key(chunk, "Raw profile type exif"))
		metadata->profile = *chunk;
	if (has_key(chunk, "XML:com.adobe.xmp"))
		metadata->xmp = *chunk;
}

void png_metadata_end_front(struct png_metadata *metadata)
{
	metadata->complete |= metadata->exif.data != NULL;
}

/* A text without its key: `bytes` lies in the chunk, or in `memory` when it was compressed. */
struct text {
	const uint8_t *bytes;
	size_t length;
	uint8_t *memory;
};

/* Step behind the next NUL; false where there is none. */
static bool skip_word(struct text *text)
{
	const uint8_t *nul = memchr(text->bytes, 0, text->length);
	size_t word = nul != NULL ? (size_t)(nul - text->bytes) + 1 : 0;

	text->bytes += word;
	text->length -= word;
	return nul != NULL;
}

static int unpack(struct text *text)
{
	uLongf length = TEXT_MAX;

	text->memory = malloc(TEXT_MAX);
	if (text->memory == NULL)
		return -ENOMEM;
	if (uncompress(text->memory, &length, text->bytes, text->length) != Z_OK)
		length = 0;
	text->bytes = text->memory;
	text->length = length;
	return 0;
}

/* The chunk's text; empty where it is damaged or too long. text->memory is the caller's. */
static int open_text(const struct png_chunk *chunk, struct text *text)
{
	bool compressed = is(chunk, "zTXt"), fine;

	*text = (struct text){.bytes = chunk->data, .length = chunk->length};
	fine = skip_word(text);
	if (fine && is(chunk, "iTXt")) {
		/* flag, method, language, translated key */
		fine = text->length >= 2 && (text->bytes[0] == 0 || text->bytes[1] == 0);
		compressed = fine && text->bytes[0] != 0;
		if (fine) {
			text->bytes += 2;
			text->length -= 2;
			fine = skip_word(text) && skip_word(text);
		}
	} else if (fine && compressed && text->length > 0) {
		text->bytes++; /* the method, which is known to be 0 */
		text->length--;
	}
	if (fine && compressed)
		return unpack(text);
	if (!fine || text->length > TEXT_MAX)
		text->length = 0;
	return 0;
}

/* XMP is XML, but Pillow looks for the words alone. */
static uint32_t xmp_orientation(const struct text *text)
{
	static const char name[] = "tiff:Orientation";
	const uint8_t *at = text->bytes, *end = at + text->length;

	while ((at = memmem(at, (size_t)(end - at), name, sizeof(name) - 1)) != NULL) {
		size_t left;

		at += sizeof(name) - 1;
		left = (size_t)(end - at);
		if (left >= 2 && at[0] == '>')
			at += 1;
		else if (left >= 3 && at[0] == '=' && at[1] == '"')
			at += 2;
		else
			continue;
		if (isdigit(*at))
			return *at - '0' <= EXIF_ORIENTATION_MAX && *at != '0' ? *at - '0'
									       : EXIF_UPRIGHT;
	}
	return EXIF_NONE;
}

static int digit_of(uint8_t c)
{
	if (isdigit(c))
		return c - '0';
	return isxdigit(c) ? tolower(c) - 'a' + 10 : -1;
}

/* Three lines (empty, name, length) and digits. Unpacks in place of `bytes`, which has half as many
 * as the text: their number, or -1 where something else stands between the digits. */
static ptrdiff_t read_profile(const struct text *text, uint8_t *bytes)
{
	const uint8_t *at = text->bytes, *end = at + text->length;
	ptrdiff_t count = 0;
	int high = -1;

	for (int line = 0; line < 3; line++) {
		at = memchr(at, '\n', (size_t)(end - at));
		if (at == NULL)
			return 0;
		at++;
	}
	for (; at < end; at++) {
		int digit = digit_of(*at);

		if (*at == '\n' || (high < 0 && isspace(*at)))
			continue;
		if (digit < 0)
			return -1;
		if (high < 0) {
			high = digit;
			continue;
		}
		bytes[count++] = (uint8_t)(high << 4 | digit);
		high = -1;
	}
	return high < 0 ? count : -1;
}

static int profile_orientation(const struct text *text, uint32_t *orientation)
{
	_cleanup_free_ uint8_t *bytes = malloc(text->length / 2 + 1);
	ptrdiff_t count;

	if (bytes == NULL)
		return -ENOMEM;
	count = read_profile(text, bytes);
	if (count < 0)
		*orientation = EXIF_UPRIGHT;
	else if (count >= 6 && memcmp(bytes, "Exif\0", 6) == 0)
		*orientation = exif_orientation(bytes + 6, (size_t)count - 6);
	else
		*orientation = exif_orientation(bytes, (size_t)count);
	return 0;
}

static int read_texts(const struct png_metadata *metadata, uint32_t *orientation)
{
	struct text profile = {.bytes = NULL}, xmp = {.bytes = NULL};
	int r = 0;

	if (metadata->exif.data == NULL && metadata->profile.data != NULL) {
		r = open_text(&metadata->profile, &profile);
		if (r == 0)
			r = profile_orientation(&profile, orientation);
	}
	if (r == 0 && *orientation == EXIF_NONE && metadata->xmp.data != NULL) {
		r = open_text(&metadata->xmp, &xmp);
		if (r == 0)
			*orientation = xmp_orientation(&xmp);
	}
	free(profile.memory);
	free(xmp.memory);
	return r;
}

int png_metadata_orientation(const struct png_metadata *metadata, uint32_t *orientation)
{
	int r = 0;

	*orientation = EXIF_NONE;
	if (metadata->exif.data != NULL)
		*orientation = exif_orientation(metadata->exif.data, metadata->exif.length);
	if (*orientation == EXIF_NONE)
		r = read_texts(metadata, orientation);
	if (*orientation == EXIF_NONE)
		*orientation = EXIF_UPRIGHT;
	return r;
}
