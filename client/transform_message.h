/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/transform_text.h"
#include "stoker.pb-c.h"

/* The protobuf form of a pipeline: transforms for Open. It points into itself and into the pipeline. */
struct transform_messages {
	Stoker__V1__Transform *pointers[PROTOCOL_TRANSFORMS_MAX];
	Stoker__V1__Transform transforms[PROTOCOL_TRANSFORMS_MAX];
	union transform_message {
		Stoker__V1__Grayscale grayscale;
		Stoker__V1__ToTensor to_tensor;
		Stoker__V1__Normalize normalize;
		Stoker__V1__Resize resize;
		Stoker__V1__CenterCrop center_crop;
		Stoker__V1__Pad pad;
		Stoker__V1__RandomCrop random_crop;
		Stoker__V1__RandomResizedCrop random_resized_crop;
		Stoker__V1__RandomHorizontalFlip random_horizontal_flip;
		Stoker__V1__RandomVerticalFlip random_vertical_flip;
		Stoker__V1__RandomRotation random_rotation;
		Stoker__V1__RandomAffine random_affine;
		Stoker__V1__ColorJitter color_jitter;
		Stoker__V1__RandomGrayscale random_grayscale;
		Stoker__V1__GaussianBlur gaussian_blur;
		Stoker__V1__RandomErasing random_erasing;
		Stoker__V1__ConvertImageDtype convert_image_dtype;
		Stoker__V1__PilToTensor pil_to_tensor;
	} messages[PROTOCOL_TRANSFORMS_MAX];
};

void transform_messages_fill(struct transform_messages *messages, struct transform_text *pipeline);
