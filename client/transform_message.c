/* SPDX-License-Identifier: Apache-2.0 */
#include "client/transform_message.h"

/* A list of a message and the one that it is taken from: `n_name` and `name`. */
#define SHARE(message, name, list)                                                                 \
	do {                                                                                       \
		(message)->n_##name = (list).count;                                                \
		(message)->name = (list).values;                                                   \
	} while (0)

static void fill_normalize(Stoker__V1__Normalize *message, struct transform_text_step *step)
{
	stoker__v1__normalize__init(message);
	SHARE(message, mean, step->mean);
	SHARE(message, std, step->std);
}

static void fill_resize(Stoker__V1__Resize *message, struct transform_text_step *step)
{
	stoker__v1__resize__init(message);
	SHARE(message, size, step->size);
	message->interpolation = (Stoker__V1__Interpolation)step->interpolation;
	message->max_size = step->max_size;
}

static void fill_pad(Stoker__V1__Pad *message, struct transform_text_step *step)
{
	stoker__v1__pad__init(message);
	SHARE(message, padding, step->padding);
	SHARE(message, fill, step->fill);
	message->padding_mode = (Stoker__V1__PaddingMode)step->padding_mode;
}

static void fill_crop(Stoker__V1__RandomCrop *message, struct transform_text_step *step)
{
	stoker__v1__random_crop__init(message);
	SHARE(message, size, step->size);
	SHARE(message, padding, step->padding);
	SHARE(message, fill, step->fill);
	message->pad_if_needed = step->pad_if_needed;
	message->padding_mode = (Stoker__V1__PaddingMode)step->padding_mode;
}

static void fill_resized_crop(
	Stoker__V1__RandomResizedCrop *message, struct transform_text_step *step)
{
	stoker__v1__random_resized_crop__init(message);
	SHARE(message, size, step->size);
	SHARE(message, scale, step->scale);
	SHARE(message, ratio, step->ratio);
	message->interpolation = (Stoker__V1__Interpolation)step->interpolation;
}

static void fill_rotation(Stoker__V1__RandomRotation *message, struct transform_text_step *step)
{
	stoker__v1__random_rotation__init(message);
	SHARE(message, degrees, step->degrees);
	SHARE(message, center, step->center);
	SHARE(message, fill, step->fill);
	message->interpolation = (Stoker__V1__Interpolation)step->interpolation;
	message->expand = step->expand;
}

static void fill_affine(Stoker__V1__RandomAffine *message, struct transform_text_step *step)
{
	stoker__v1__random_affine__init(message);
	SHARE(message, degrees, step->degrees);
	SHARE(message, translate, step->translate);
	SHARE(message, scale, step->scale);
	SHARE(message, shear, step->shear);
	SHARE(message, fill, step->fill);
	SHARE(message, center, step->center);
	message->interpolation = (Stoker__V1__Interpolation)step->interpolation;
}

static void fill_jitter(Stoker__V1__ColorJitter *message, struct transform_text_step *step)
{
	stoker__v1__color_jitter__init(message);
	SHARE(message, brightness, step->brightness);
	SHARE(message, contrast, step->contrast);
	SHARE(message, saturation, step->saturation);
	SHARE(message, hue, step->hue);
}

static void fill_blur(Stoker__V1__GaussianBlur *message, struct transform_text_step *step)
{
	stoker__v1__gaussian_blur__init(message);
	SHARE(message, kernel_size, step->kernel_size);
	SHARE(message, sigma, step->sigma);
}

static void fill_erasing(Stoker__V1__RandomErasing *message, struct transform_text_step *step)
{
	stoker__v1__random_erasing__init(message);
	SHARE(message, scale, step->scale);
	SHARE(message, ratio, step->ratio);
	SHARE(message, value, step->value);
	message->p = step->p;
	message->random_value = step->random_value;
}

static void fill_convert(Stoker__V1__ConvertImageDtype *message, enum transform_text_dtype dtype)
{
	static const Stoker__V1__Dtype dtypes[] = {
		[TRANSFORM_TEXT_UINT8] = STOKER__V1__DTYPE__DTYPE_U8,
		[TRANSFORM_TEXT_FLOAT16] = STOKER__V1__DTYPE__DTYPE_F16,
		[TRANSFORM_TEXT_BFLOAT16] = STOKER__V1__DTYPE__DTYPE_BF16,
		[TRANSFORM_TEXT_FLOAT32] = STOKER__V1__DTYPE__DTYPE_F32,
	};

	stoker__v1__convert_image_dtype__init(message);
	message->dtype = dtypes[dtype];
}

/* Which message of the oneof it is, and that message. */
#define CHOOSE(transform, NAME, message, name)                                                     \
	((transform)->transform_case = STOKER__V1__TRANSFORM__TRANSFORM_##NAME,                    \
		(transform)->name = &(message)->name)

static void fill(Stoker__V1__Transform *transform, union transform_message *message,
	struct transform_text_step *step)
{
	stoker__v1__transform__init(transform);
	switch (step->kind) {
	case TRANSFORM_TEXT_GRAYSCALE:
		CHOOSE(transform, GRAYSCALE, message, grayscale);
		stoker__v1__grayscale__init(transform->grayscale);
		transform->grayscale->num_output_channels = step->channels;
		break;
	case TRANSFORM_TEXT_TO_TENSOR:
		stoker__v1__to_tensor__init(CHOOSE(transform, TO_TENSOR, message, to_tensor));
		break;
	case TRANSFORM_TEXT_NORMALIZE:
		fill_normalize(CHOOSE(transform, NORMALIZE, message, normalize), step);
		break;
	case TRANSFORM_TEXT_RESIZE:
		fill_resize(CHOOSE(transform, RESIZE, message, resize), step);
		break;
	case TRANSFORM_TEXT_CENTER_CROP:
		CHOOSE(transform, CENTER_CROP, message, center_crop);
		stoker__v1__center_crop__init(transform->center_crop);
		SHARE(transform->center_crop, size, step->size);
		break;
	case TRANSFORM_TEXT_PAD: fill_pad(CHOOSE(transform, PAD, message, pad), step); break;
	case TRANSFORM_TEXT_RANDOM_CROP:
		fill_crop(CHOOSE(transform, RANDOM_CROP, message, random_crop), step);
		break;
	case TRANSFORM_TEXT_RANDOM_RESIZED_CROP:
		fill_resized_crop(
			CHOOSE(transform, RANDOM_RESIZED_CROP, message, random_resized_crop), step);
		break;
	case TRANSFORM_TEXT_RANDOM_HORIZONTAL_FLIP:
		CHOOSE(transform, RANDOM_HORIZONTAL_FLIP, message, random_horizontal_flip);
		stoker__v1__random_horizontal_flip__init(transform->random_horizontal_flip);
		transform->random_horizontal_flip->p = step->p;
		break;
	case TRANSFORM_TEXT_RANDOM_VERTICAL_FLIP:
		CHOOSE(transform, RANDOM_VERTICAL_FLIP, message, random_vertical_flip);
		stoker__v1__random_vertical_flip__init(transform->random_vertical_flip);
		transform->random_vertical_flip->p = step->p;
		break;
	case TRANSFORM_TEXT_RANDOM_ROTATION:
		fill_rotation(CHOOSE(transform, RANDOM_ROTATION, message, random_rotation), step);
		break;
	case TRANSFORM_TEXT_RANDOM_AFFINE:
		fill_affine(CHOOSE(transform, RANDOM_AFFINE, message, random_affine), step);
		break;
	case TRANSFORM_TEXT_COLOR_JITTER:
		fill_jitter(CHOOSE(transform, COLOR_JITTER, message, color_jitter), step);
		break;
	case TRANSFORM_TEXT_RANDOM_GRAYSCALE:
		CHOOSE(transform, RANDOM_GRAYSCALE, message, random_grayscale);
		stoker__v1__random_grayscale__init(transform->random_grayscale);
		transform->random_grayscale->p = step->p;
		break;
	case TRANSFORM_TEXT_GAUSSIAN_BLUR:
		fill_blur(CHOOSE(transform, GAUSSIAN_BLUR, message, gaussian_blur), step);
		break;
	case TRANSFORM_TEXT_RANDOM_ERASING:
		fill_erasing(CHOOSE(transform, RANDOM_ERASING, message, random_erasing), step);
		break;
	case TRANSFORM_TEXT_CONVERT_IMAGE_DTYPE:
		fill_convert(CHOOSE(transform, CONVERT_IMAGE_DTYPE, message, convert_image_dtype),
			step->dtype);
		break;
	case TRANSFORM_TEXT_PIL_TO_TENSOR:
		stoker__v1__pil_to_tensor__init(
			CHOOSE(transform, PIL_TO_TENSOR, message, pil_to_tensor));
		break;
	}
}

void transform_messages_fill(struct transform_messages *messages, struct transform_text *pipeline)
{
	for (size_t i = 0; i < pipeline->count; i++) {
		messages->pointers[i] = &messages->transforms[i];
		fill(&messages->transforms[i], &messages->messages[i], &pipeline->steps[i]);
	}
}
