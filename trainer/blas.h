/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * OpenBLAS picks its kernels by the CPU's model number when it is loaded, and a release older than
 * the CPU falls back to SSE3 (0.3.21 of Debian 12 does on Emerald Rapids): four times slower than
 * the CPU's AVX kernels. Call first in main: where that happened, the program starts itself
 * again with OPENBLAS_CORETYPE set to what the CPU can do. An OPENBLAS_CORETYPE that is set already
 * is left alone. Returns when nothing was to be done or could be done.
 */
void blas_choose_kernels(char **argv);
