/* H.264 and H.265 written without compression: every block carries its samples as they are (PCM), every picture stands
   alone. So a stand-in for an encoder gives valid streams with the very picture that it was handed. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct bits { uint8_t *data; size_t bytes; unsigned pending; int count; };

static void put(struct bits *out, unsigned value, int width)
{
    while (width--) {
        out->pending = out->pending << 1 | (value >> width & 1);
        if (++out->count == 8) {
            out->data[out->bytes++] = (uint8_t)out->pending;
            out->pending = 0;
            out->count = 0;
        }
    }
}
static void put_golomb(struct bits *out, unsigned value)
{
    int length = 0;
    while ((value + 1) >> (length + 1))
        length++;
    put(out, 0, length);
    put(out, value + 1, length + 1);
}
static void align(struct bits *out) { while (out->count) put(out, 0, 1); }
static void finish(struct bits *out) { put(out, 1, 1); align(out); }

/* A unit of the stream: its start code, then its bytes with the ones that would look like a start code broken up. */
static size_t put_unit(uint8_t *to, const struct bits *unit)
{
    size_t place, made = 0;
    int zeros = 0;
    memcpy(to, "\0\0\0\1", 4);
    made = 4;
    for (place = 0; place < unit->bytes; place++) {
        if (zeros >= 2 && unit->data[place] <= 3) {
            to[made++] = 3;
            zeros = 0;
        }
        to[made++] = unit->data[place];
        zeros = unit->data[place] ? 0 : zeros + 1;
    }
    return made;
}

struct picture { const uint8_t *luma, *blue, *red; int pitch, chroma_pitch, step, width, height; };

static uint8_t sample(const uint8_t *plane, int pitch, int step, int x, int y, int width, int height)
{
    x = x < width ? x : width - 1;
    y = y < height ? y : height - 1;
    return plane[(size_t)y * pitch + x * step];
}
static void put_block(struct bits *out, const struct picture *in, int block_x, int block_y)
{
    int x, y;
    for (y = 0; y < 16; y++)
        for (x = 0; x < 16; x++)
            out->data[out->bytes++] = sample(in->luma, in->pitch, 1, block_x * 16 + x, block_y * 16 + y, in->width, in->height);
    for (y = 0; y < 8; y++)
        for (x = 0; x < 8; x++)
            out->data[out->bytes++] = sample(in->blue, in->chroma_pitch, in->step, block_x * 8 + x, block_y * 8 + y, in->width / 2, in->height / 2);
    for (y = 0; y < 8; y++)
        for (x = 0; x < 8; x++)
            out->data[out->bytes++] = sample(in->red, in->chroma_pitch, in->step, block_x * 8 + x, block_y * 8 + y, in->width / 2, in->height / 2);
}

static size_t h264_headers(uint8_t *to, struct bits *unit, int width, int height)
{
    int wide = (width + 15) / 16, high = (height + 15) / 16;
    size_t made;
    *unit = (struct bits){.data = unit->data};
    put(unit, 0x67, 8); put(unit, 66, 8); put(unit, 0xC0, 8); put(unit, 51, 8);
    put_golomb(unit, 0); put_golomb(unit, 0); put_golomb(unit, 2); put_golomb(unit, 1); put(unit, 0, 1);
    put_golomb(unit, wide - 1); put_golomb(unit, high - 1); put(unit, 3, 2);
    put(unit, 1, 1); put_golomb(unit, 0); put_golomb(unit, (wide * 16 - width) / 2); put_golomb(unit, 0); put_golomb(unit, (high * 16 - height) / 2);
    put(unit, 0, 1); finish(unit);
    made = put_unit(to, unit);
    *unit = (struct bits){.data = unit->data};
    put(unit, 0x68, 8); put_golomb(unit, 0); put_golomb(unit, 0); put(unit, 0, 2); put_golomb(unit, 0); put_golomb(unit, 0); put_golomb(unit, 0);
    put(unit, 0, 3); put_golomb(unit, 0); put_golomb(unit, 0); put_golomb(unit, 0); put(unit, 4, 3); finish(unit);
    return made + put_unit(to + made, unit);
}
/* With no picture given every block is predicted and nothing corrects it, which makes a grey frame of few bytes. */
static size_t h264_picture(uint8_t *to, struct bits *unit, const struct picture *in, int width, int height, unsigned number)
{
    int x, y, wide = (width + 15) / 16, high = (height + 15) / 16;
    *unit = (struct bits){.data = unit->data};
    put(unit, 0x65, 8); put_golomb(unit, 0); put_golomb(unit, 7); put_golomb(unit, 0); put(unit, 0, 4); put_golomb(unit, number & 1);
    put(unit, 0, 2); put_golomb(unit, 0); put_golomb(unit, 1);
    for (y = 0; y < high; y++)
        for (x = 0; x < wide; x++) {
            if (in) {
                put_golomb(unit, 25);
                align(unit);
                put_block(unit, in, x, y);
            } else {
                put_golomb(unit, 3); put_golomb(unit, 0); put_golomb(unit, 0); put(unit, 1, 1);
            }
        }
    finish(unit);
    return put_unit(to, unit);
}

static void profile_and_level(struct bits *unit)
{
    put(unit, 1, 8); put(unit, 0x6000, 16); put(unit, 0, 16); put(unit, 9, 4); put(unit, 0, 32); put(unit, 0, 12); put(unit, 153, 8);
}
static size_t h265_headers(uint8_t *to, struct bits *unit, int width, int height)
{
    int wide = (width + 15) / 16 * 16, high = (height + 15) / 16 * 16;
    size_t made;
    *unit = (struct bits){.data = unit->data};
    put(unit, 0x4001, 16); put(unit, 3, 6); put(unit, 0, 6); put(unit, 1, 4); put(unit, 0xFFFF, 16);
    profile_and_level(unit);
    put(unit, 1, 1); put_golomb(unit, 0); put_golomb(unit, 0); put_golomb(unit, 0); put(unit, 0, 6); put_golomb(unit, 0); put(unit, 0, 2); finish(unit);
    made = put_unit(to, unit);
    *unit = (struct bits){.data = unit->data};
    put(unit, 0x4201, 16); put(unit, 0, 4); put(unit, 1, 4);
    profile_and_level(unit);
    put_golomb(unit, 0); put_golomb(unit, 1); put_golomb(unit, wide); put_golomb(unit, high);
    put(unit, 1, 1); put_golomb(unit, 0); put_golomb(unit, (wide - width) / 2); put_golomb(unit, 0); put_golomb(unit, (high - height) / 2);
    put_golomb(unit, 0); put_golomb(unit, 0); put_golomb(unit, 4); put(unit, 1, 1); put_golomb(unit, 0); put_golomb(unit, 0); put_golomb(unit, 0);
    put_golomb(unit, 1); put_golomb(unit, 0); put_golomb(unit, 0); put_golomb(unit, 2); put_golomb(unit, 0); put_golomb(unit, 0); put(unit, 0, 3);
    put(unit, 1, 1); put(unit, 0x77, 8); put_golomb(unit, 1); put_golomb(unit, 0); put(unit, 1, 1);
    put_golomb(unit, 0); put(unit, 0, 5); finish(unit);
    made += put_unit(to + made, unit);
    *unit = (struct bits){.data = unit->data};
    put(unit, 0x4401, 16); put_golomb(unit, 0); put_golomb(unit, 0); put(unit, 0, 7); put_golomb(unit, 0); put_golomb(unit, 0); put_golomb(unit, 0);
    put(unit, 0, 3); put_golomb(unit, 0); put_golomb(unit, 0); put(unit, 0, 7); put(unit, 5, 3); put(unit, 0, 2); put_golomb(unit, 0); put(unit, 0, 2);
    finish(unit);
    return made + put_unit(to + made, unit);
}

/* The part of the arithmetic coder that is needed: one likely bin, then the end that comes before raw samples. */
static const uint8_t LEAST[] = {
    240, 227, 216, 205, 195, 185, 175, 166, 158, 150, 142, 135, 128, 122, 116, 110, 104, 99, 94, 89, 85, 80, 76, 72, 69, 65,
    62, 59, 56, 53, 50, 48, 45, 43, 41, 39, 37, 35, 33, 31, 30, 28, 27, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 14,
    13, 12, 12, 11, 11, 10, 9,
};
static void put_coded(struct bits *out, int *first, int *waiting, unsigned bit)
{
    if (*first)
        *first = 0;
    else
        put(out, bit, 1);
    for (; *waiting; --*waiting)
        put(out, !bit, 1);
}
static void put_end(struct bits *out, unsigned low)
{
    int first = 1, waiting = 0, step;
    for (step = 0; step < 7; step++) {
        if (low < 256)
            put_coded(out, &first, &waiting, 0);
        else if (low >= 512) {
            low -= 512;
            put_coded(out, &first, &waiting, 1);
        } else {
            low -= 256;
            waiting++;
        }
        low <<= 1;
    }
    put_coded(out, &first, &waiting, low >> 9 & 1);
    put(out, (low >> 7 & 3) | 1, 2);
}
static size_t h265_picture(uint8_t *to, struct bits *unit, const struct picture *in, int width, int height)
{
    int x, y, wide = (width + 15) / 16, high = (height + 15) / 16, state = 0, range = 510;
    *unit = (struct bits){.data = unit->data};
    put(unit, 0x2601, 16); put(unit, 2, 2); put_golomb(unit, 0); put_golomb(unit, 2); put_golomb(unit, 0); finish(unit);
    for (y = 0; y < high; y++)
        for (x = 0; x < wide; x++) {
            put_end(unit, range - LEAST[state] - 2);
            state += state < 62;
            align(unit);
            put_block(unit, in, x, y);
            range = 508;
        }
    put_end(unit, 508);
    align(unit);
    return put_unit(to, unit);
}
