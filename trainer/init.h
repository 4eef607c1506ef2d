/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "trainer/model.h"

/*
 * The weights that torch draws for
 *   torch.manual_seed(seed); nn.Linear(inputs, hidden); nn.Linear(hidden, classes)
 * bit for bit (torch 1.13 on a CPU with FMA). `weights`: model_weights_count(config) floats.
 */
void init_weights(const struct model_config *config, uint64_t seed, float *weights);
