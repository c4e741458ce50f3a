// SPDX-License-Identifier: Apache-2.0
// PNG through libpng's simple interface. Luminance and colour differences are those of JPEG files
// (ITU-T T.871), as most tools use them.
#include "cli/image.h"

#include "base/os.h"
#include "base/util.h"
#include "runtime/tensor.h"

#include <math.h>
#include <png.h>
#include <string.h>

const char *image_read(Arena *a, const char *path, Image *out)
{
    FileMap file;
    const char *why = file_map(a, path, &file);
    if (why) return why;
    png_image png = {.version = PNG_IMAGE_VERSION};
    if (png_image_begin_read_from_memory(&png, file.data, file.size)) {
        bool color = png.format & PNG_FORMAT_FLAG_COLOR;
        png.format = color ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
        *out = (Image){(int)png.width, (int)png.height, color ? 3 : 1, NULL};
        out->pixels = arena_alloc(a, PNG_IMAGE_SIZE(png));
        const png_color white = {255, 255, 255};
        png_image_finish_read(&png, &white, out->pixels, 0, NULL);
    }
    file_unmap(&file);
    if (png.warning_or_error & PNG_IMAGE_ERROR) why = arena_printf(a, "%s: %s", path, png.message);
    png_image_free(&png);
    return why;
}

const char *image_write(Arena *a, const char *path, const Image *image)
{
    png_image png = {.version = PNG_IMAGE_VERSION,
                     .width = (png_uint_32)image->width,
                     .height = (png_uint_32)image->height,
                     .format = image->channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY};
    png_alloc_size_t size = 0;
    void *data = NULL;
    bool ok = png_image_write_get_memory_size(png, size, 0, image->pixels, 0, NULL);
    if (ok) {
        data = arena_alloc(a, size);
        ok = png_image_write_to_memory(&png, data, &size, 0, image->pixels, 0, NULL);
    }
    const char *why =
        ok ? file_write_atomic(a, path, data, size) : arena_printf(a, "%s: %s", path, png.message);
    png_image_free(&png);
    return why;
}

// ---- into a tensor

static double luma(const uint8_t *rgb)
{
    return 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2];
}

// 0 .. 255; `channels` are those of the tensor.
static double pixel(const Image *im, int channels, int y, int x, int c)
{
    const uint8_t *p =
        im->pixels + ((size_t)y * (size_t)im->width + (size_t)x) * (size_t)im->channels;
    if (im->channels == 1) return p[0];
    return channels == 1 ? luma(p) : p[c];
}

const char *image_to_tensor(Arena *a, const Image *im, const ImageScale *scale,
                            const heald_value_info *input, heald_tensor **out)
{
    DType type = (DType)input->dtype;
    if (input->rank != 4 || !(type == DT_U8 || dtype_is_float(type))) {
        return arena_printf(a, "input '%s' has not the shape and type of a picture", input->name);
    }
    bool last =
        (input->dims[3] == 3 || input->dims[3] == 1) && input->dims[1] != 3 && input->dims[1] != 1;
    int64_t wanted = input->dims[last ? 3 : 1];
    int channels = wanted == 1 || wanted == 3 ? (int)wanted : im->channels;
    int64_t planes[] = {1, channels, im->height, im->width};
    int64_t pixels[] = {1, im->height, im->width, channels};
    if (heald_tensor_create(input->dtype, 4, last ? pixels : planes, out)) return "out of memory";
    size_t size = dtype_size(type);
    char *at = heald_tensor_data(*out);
    for (int y = 0; y < im->height; y++)
        for (int x = 0; x < im->width; x++)
            for (int c = 0; c < channels; c++) {
                double v = pixel(im, channels, y, x, c);
                int64_t i = last ? ((int64_t)y * im->width + x) * channels + c
                                 : ((int64_t)c * im->height + y) * im->width + x;
                if (type != DT_U8) v = (v / 255 - scale->mean[c]) / scale->std[c];
                else v = rint(v);
                if (type == DT_U8) dtype_store_i64(type, at + (size_t)i * size, (int64_t)v);
                else dtype_store_f64(type, at + (size_t)i * size, v);
            }
    return NULL;
}

// ---- and back

static bool channels_last(const heald_tensor *t)
{
    return t->dims[1] != 1 && t->dims[1] != 3;
}

bool tensor_is_image(const heald_tensor *t)
{
    if (t->rank != 4 || t->dims[0] != 1 || !(t->dtype == DT_U8 || dtype_is_float(t->dtype)))
        return false;
    bool last = channels_last(t);
    int64_t c = t->dims[last ? 3 : 1], h = t->dims[last ? 1 : 2], w = t->dims[last ? 2 : 3];
    return (c == 1 || c == 3) && h >= 8 && w >= 8 && h <= 32768 && w <= 32768;
}

static uint8_t to_byte(double v)
{
    return !(v > 0) ? 0 : v >= 255 ? 255 : (uint8_t)rint(v);
}

// One colour difference at a place between pixels: Cb for which 0, Cr for 1, around 0.
static double chroma(const Image *im, int y, int x, int which)
{
    y = y < 0 ? 0 : y >= im->height ? im->height - 1 : y;
    x = x < 0 ? 0 : x >= im->width ? im->width - 1 : x;
    const uint8_t *p = im->pixels + ((size_t)y * (size_t)im->width + (size_t)x) * 3;
    return which ? (p[0] - luma(p)) / 1.402 : (p[2] - luma(p)) / 1.772;
}

// Centres of pixels are at halves.
static double chroma_between(const Image *im, double y, double x, int which)
{
    int y0 = (int)floor(y), x0 = (int)floor(x);
    double fy = y - y0, fx = x - x0;
    double top = chroma(im, y0, x0, which) * (1 - fx) + chroma(im, y0, x0 + 1, which) * fx;
    double low = chroma(im, y0 + 1, x0, which) * (1 - fx) + chroma(im, y0 + 1, x0 + 1, which) * fx;
    return top * (1 - fy) + low * fy;
}

static void color_pixel(const Image *color, const Image *to, int y, int x, double light,
                        uint8_t *rgb)
{
    double sy = (y + 0.5) * color->height / to->height - 0.5;
    double sx = (x + 0.5) * color->width / to->width - 0.5;
    double cb = chroma_between(color, sy, sx, 0), cr = chroma_between(color, sy, sx, 1);
    rgb[0] = to_byte(light + 1.402 * cr);
    rgb[1] = to_byte(light - 0.114 * 1.772 / 0.587 * cb - 0.299 * 1.402 / 0.587 * cr);
    rgb[2] = to_byte(light + 1.772 * cb);
}

Image image_from_tensor(Arena *a, const heald_tensor *t, const Image *color)
{
    bool last = channels_last(t);
    int h = (int)t->dims[last ? 1 : 2], w = (int)t->dims[last ? 2 : 3];
    int c = (int)t->dims[last ? 3 : 1];
    bool tint = c == 1 && color && color->channels == 3;
    Image im = {w, h, tint ? 3 : c, NULL};
    im.pixels = arena_alloc(a, (size_t)h * (size_t)w * (size_t)im.channels);
    double unit = t->dtype == DT_U8 ? 1 : 255;
    size_t size = dtype_size(t->dtype);
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            uint8_t *to = im.pixels + ((size_t)y * (size_t)w + (size_t)x) * (size_t)im.channels;
            for (int k = 0; k < c; k++) {
                int64_t i = last ? ((int64_t)y * w + x) * c + k : ((int64_t)k * h + y) * w + x;
                double v = unit * dtype_load_f64(t->dtype, (char *)t->data + (size_t)i * size);
                if (tint) color_pixel(color, &im, y, x, v, to);
                else to[k] = to_byte(v);
            }
        }
    return im;
}
