/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/image/erase.h"

/* A normally distributed value, behind all that follows RandomErasing in the pipeline. */
static float random_value(const struct transform_plan *plan, const struct transform_erase *erase,
	struct random_source *source, uint32_t channel)
{
	float value = element_round(erase->dtype, (float)random_normal(source));

	for (uint32_t i = erase->first_map; i < plan->map_count; i++)
		value = element_map_apply(&plan->maps[i], channel, value);
	return value;
}

void erase_row(const struct transform_plan *plan, const struct transform_erase *erase,
	const struct random_key *key, void *row)
{
	double parameters[DRAWN_PARAMETERS];
	struct random_source source = random_source_of(key, erase->op.transform);
	struct erased_region region =
		draw_erasing(&erase->op, &source, plan->width, plan->height, parameters);
	bool planar = plan->layout == PIXEL_NCHW;
	size_t unit = element_bytes(plan->dtype);
	size_t step = planar ? unit : unit * plan->channels;
	size_t plane = planar ? unit * plan->width * plan->height : unit;

	for (uint32_t c = 0; c < plan->channels; c++) {
		for (uint32_t y = region.top; y < region.top + region.height; y++) {
			uint8_t *to = (uint8_t *)row + c * plane +
				      ((size_t)y * plan->width + region.left) * step;

			for (uint32_t x = 0; x < region.width; x++, to += step)
				element_store(plan->dtype,
					erase->op.random_value
						? random_value(plan, erase, &source, c)
						: erase->value[c],
					to);
		}
	}
}
