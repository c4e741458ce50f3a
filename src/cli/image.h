// SPDX-License-Identifier: Apache-2.0
// PNG pictures, and their way into tensors and back.
#ifndef HEALD_CLI_IMAGE_H
#define HEALD_CLI_IMAGE_H

#include "base/arena.h"
#include "heald.h"

typedef struct Image {
    int width, height;
    int channels;    // 1: grey, 3: red, green, blue
    uint8_t *pixels; // (height, width, channels)
} Image;

// Each returns NULL on success, otherwise a message in `a` that names the file. Transparency is
// laid over white.
const char *image_read(Arena *a, const char *path, Image *out);
const char *image_write(Arena *a, const char *path, const Image *image);

typedef struct ImageScale {
    double mean[3], std[3]; // value = (pixel / 255 - mean) / std
} ImageScale;

// A tensor for a model's input: (1, channels, height, width), or (1, height, width, channels) where
// the input says so; floats scaled, u8 as they are. For an input of one channel a coloured picture
// gives its luminance. NULL, or what does not fit.
const char *image_to_tensor(Arena *a, const Image *image, const ImageScale *scale,
                            const heald_value_info *input, heald_tensor **out);

// Whether a tensor has the shape of a picture: floats or u8, one picture of 1 or 3 channels of at
// least 8 x 8 pixels.
bool tensor_is_image(const heald_tensor *t);
// The picture of such a tensor, values of 0 .. 1 (floats) shown as black .. white. Where it has one
// channel and `color` has three, it is the luminance, and the colours are those of `color`,
// enlarged bilinearly. color may be NULL.
Image image_from_tensor(Arena *a, const heald_tensor *t, const Image *color);

#endif
