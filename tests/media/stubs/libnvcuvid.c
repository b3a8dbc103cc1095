/* A stand-in for the driver's decode library. It decodes nothing: it reads where a picture stands in the order of display
   and hands out that frame of the file NVDEC_FRAMES (raw NV12 of the coded size, made before by a software decoder), or grey where there is
   no such file. As a driver does, it makes no decoder of more than 32 surfaces. NVDEC_FAULT plants a fault: "pixel" (one byte differs), "refuse" (no decoder is made). */
#include <ffnvcodec/dynlink_cuda.h>
#include <ffnvcodec/dynlink_nvcuvid.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SURFACES 64

struct decoder {
    int width, height, left, top, crop_width, crop_height, target_width, target_height;
    int frame_of[SURFACES], begin, reached;
};

static int fault(const char *kind) { return getenv("NVDEC_FAULT") && !strcmp(getenv("NVDEC_FAULT"), kind); }

CUresult cuvidGetDecoderCaps(CUVIDDECODECAPS *caps)
{
    caps->bIsSupported = caps->eCodecType == cudaVideoCodec_H264 || caps->eCodecType == cudaVideoCodec_HEVC;
    caps->nMaxWidth = caps->nMaxHeight = 4096;
    caps->nMaxMBCount = 65536;
    caps->nMinWidth = caps->nMinHeight = 48;
    caps->nOutputFormatMask = 3;
    return CUDA_SUCCESS;
}
CUresult cuvidCreateDecoder(struct decoder **made, CUVIDDECODECREATEINFO *how)
{
    struct decoder *own = calloc(1, sizeof *own);
    if (fault("refuse") || how->ulNumDecodeSurfaces > 32)
        return 1;  /* an invalid value */
    own->width = how->ulWidth;
    own->height = how->ulHeight;
    own->left = how->display_area.left;
    own->top = how->display_area.top;
    own->crop_width = how->display_area.right ? how->display_area.right - own->left : own->width;
    own->crop_height = how->display_area.bottom ? how->display_area.bottom - own->top : own->height;
    own->target_width = how->ulTargetWidth;
    own->target_height = how->ulTargetHeight;
    *made = own;
    return CUDA_SUCCESS;
}
CUresult cuvidDestroyDecoder(struct decoder *own) { free(own); return CUDA_SUCCESS; }
CUresult cuvidDecodePicture(struct decoder *own, CUVIDPICPARAMS *given)
{
    int order = given->CodecSpecific.h264.CurrFieldOrderCnt[0] & 0xFFFF;  /* FFmpeg's own begins at 65536 */
    if (order == 0 && given->intra_pic_flag)
        own->begin = own->reached;
    own->frame_of[given->CurrPicIdx] = own->begin + order / 2;
    if (own->reached <= own->begin + order / 2)
        own->reached = own->begin + order / 2 + 1;
    return CUDA_SUCCESS;
}
CUresult cuvidGetDecodeStatus(void *decoder, int surface, CUVIDGETDECODESTATUS *status)
{
    (void)decoder; (void)surface;
    status->decodeStatus = cuvidDecodeStatus_Success;
    return CUDA_SUCCESS;
}
CUresult cuvidReconfigureDecoder(void *decoder, void *how) { (void)decoder; (void)how; return CUDA_SUCCESS; }

static void copy_plane(uint8_t *to, int pitch, const uint8_t *from, const struct decoder *own, int is_chroma, int width)
{
    int row, column, step = is_chroma ? 2 : 1;
    int wide = own->target_width / step, high = own->target_height / step;
    for (row = 0; row < high; row++)
        for (column = 0; column < wide; column++) {
            int x = own->left / step + column * (own->crop_width / step) / wide;
            int y = own->top / step + row * (own->crop_height / step) / high;
            memcpy(to + (size_t)row * pitch + column * step, from + (size_t)y * width + x * step, step);
        }
}
static int fill(const struct decoder *own, int number, uint8_t *to, int pitch)
{
    const char *name = getenv("NVDEC_FRAMES");
    int width = own->width, height = own->height;
    size_t bytes = (size_t)width * height * 3 / 2;
    FILE *file = name ? fopen(name, "rb") : NULL;
    uint8_t *frame;
    int found;
    if (!file)
        return 0;
    frame = malloc(bytes);
    found = !fseek(file, (long)(bytes * number), SEEK_SET) && fread(frame, 1, bytes, file) == bytes;
    if (found) {
        copy_plane(to, pitch, frame, own, 0, width);
        copy_plane(to + (size_t)pitch * own->target_height, pitch, frame + (size_t)width * height, own, 1, width);
    }
    fclose(file);
    free(frame);
    return found;
}
CUresult cuvidMapVideoFrame64(struct decoder *own, int surface, unsigned long long *place, unsigned *pitch, CUVIDPROCPARAMS *how)
{
    uint8_t *memory;
    (void)how;
    *pitch = (own->target_width + 511) / 512 * 512;
    memory = malloc((size_t)*pitch * own->target_height * 3 / 2);
    memset(memory, 128, (size_t)*pitch * own->target_height * 3 / 2);
    fill(own, own->frame_of[surface], memory, *pitch);
    if (fault("pixel") && own->frame_of[surface] == 20)
        memory[100] ^= 1;
    *place = (unsigned long long)(uintptr_t)memory;
    return CUDA_SUCCESS;
}
CUresult cuvidUnmapVideoFrame64(void *decoder, unsigned long long place)
{
    (void)decoder;
    free((void *)(uintptr_t)place);
    return CUDA_SUCCESS;
}
CUresult cuvidCtxLockCreate(void **lock, void *context) { *lock = context; return CUDA_SUCCESS; }

/* The parser: one packet is one picture. It reads the size and the order of display, and gives frames out in that order. */
struct reader { const uint8_t *data; size_t bytes, place; };
struct shown { int order, surface; CUvideotimestamp stamp; };
struct parser {
    CUVIDPARSERPARAMS how;
    int is_told, width, height, right, bottom, frame_bits, order_bits, top_order, next_order, next_surface, waiting;
    struct shown shown[SURFACES];
    long given;
};

static unsigned bit(struct reader *in)
{
    unsigned value = in->place / 8 < in->bytes ? in->data[in->place / 8] >> (7 - in->place % 8) & 1 : 0;
    in->place++;
    return value;
}
static unsigned bits_of(struct reader *in, int width)
{
    unsigned value = 0;
    while (width--)
        value = value << 1 | bit(in);
    return value;
}
static unsigned golomb(struct reader *in)
{
    int zeros = 0;
    while (zeros < 31 && !bit(in))
        zeros++;
    return (1u << zeros) - 1 + bits_of(in, zeros);
}
static void read_parameters(struct parser *own, struct reader *in)
{
    unsigned profile = bits_of(in, 8), kind, wide, high, frames_only;
    bits_of(in, 16);
    golomb(in);
    if (profile >= 100 && profile != 144) {
        golomb(in); golomb(in); golomb(in); bit(in); bit(in);
    }
    own->frame_bits = golomb(in) + 4;
    kind = golomb(in);
    own->order_bits = kind == 0 ? golomb(in) + 4 : 0;
    golomb(in); bit(in);
    wide = golomb(in) + 1;
    high = golomb(in) + 1;
    frames_only = bit(in);
    if (!frames_only)
        bit(in);
    bit(in);
    own->width = wide * 16;
    own->height = high * 16 * (2 - frames_only);
    own->right = own->width;
    own->bottom = own->height;
    if (bit(in)) {
        golomb(in);
        own->right -= 2 * golomb(in);
        golomb(in);
        own->bottom -= 2 * golomb(in);
    }
}
static void show(struct parser *own, int is_end)
{
    int place, least;
    while (own->waiting) {
        CUVIDPARSERDISPINFO told = {.progressive_frame = 1};
        for (least = 0, place = 1; place < own->waiting; place++)
            if (own->shown[place].order < own->shown[least].order)
                least = place;
        if (!is_end && own->shown[least].order != own->next_order)
            return;
        told.picture_index = own->shown[least].surface;
        told.timestamp = own->shown[least].stamp >= 0 ? own->shown[least].stamp : own->given * 400000;
        own->next_order = own->shown[least].order + 2;
        own->shown[least] = own->shown[--own->waiting];
        own->given++;
        own->how.pfnDisplayPicture(own->how.pUserData, &told);
    }
}
static void tell(struct parser *own)
{
    CUVIDEOFORMAT format = {.codec = own->how.CodecType, .progressive_sequence = 1, .min_num_decode_surfaces = 20};
    format.frame_rate.numerator = 25;
    format.frame_rate.denominator = 1;
    format.coded_width = own->width;
    format.coded_height = own->height;
    format.display_area.right = own->right;
    format.display_area.bottom = own->bottom;
    format.video_signal_description.color_primaries = 2;  /* not told */
    format.video_signal_description.transfer_characteristics = 2;
    format.video_signal_description.matrix_coefficients = 2;
    format.display_aspect_ratio.x = own->right;
    format.display_aspect_ratio.y = own->bottom;
    format.chroma_format = cudaVideoChromaFormat_420;
    own->how.pfnSequenceCallback(own->how.pUserData, &format);
    own->is_told = 1;
}
static void picture(struct parser *own, struct reader *in, int is_whole, CUvideotimestamp stamp)
{
    CUVIDPICPARAMS given = {.intra_pic_flag = is_whole};
    int order;
    if (!own->is_told)
        tell(own);
    golomb(in); golomb(in); golomb(in);
    bits_of(in, own->frame_bits);
    if (is_whole) {
        golomb(in);
        show(own, 1);
        own->next_order = own->top_order = 0;
    }
    if (own->order_bits) {
        order = (own->top_order & ~((1 << own->order_bits) - 1)) + (int)bits_of(in, own->order_bits);
        if (order < own->top_order - (1 << own->order_bits) / 2)
            order += 1 << own->order_bits;
    } else  /* the order of decoding is that of display */
        order = is_whole ? 0 : own->top_order + 2;
    if (order > own->top_order)
        own->top_order = order;
    given.CurrPicIdx = own->next_surface++ % 20;
    given.PicWidthInMbs = own->width / 16;
    given.FrameHeightInMbs = own->height / 16;
    given.CodecSpecific.h264.CurrFieldOrderCnt[0] = order;
    own->how.pfnDecodePicture(own->how.pUserData, &given);
    own->shown[own->waiting++] = (struct shown){order, given.CurrPicIdx, stamp};
    show(own, 0);
}
CUresult cuvidCreateVideoParser(struct parser **made, CUVIDPARSERPARAMS *how)
{
    *made = calloc(1, sizeof **made);
    (*made)->how = *how;
    return CUDA_SUCCESS;
}
CUresult cuvidParseVideoData(struct parser *own, CUVIDSOURCEDATAPACKET *packet)
{
    size_t place;
    CUvideotimestamp stamp = packet->flags & CUVID_PKT_TIMESTAMP ? packet->timestamp : -1;
    for (place = 0; packet->payload && place + 4 < packet->payload_size; place++) {
        const uint8_t *at = packet->payload + place;
        if (at[0] == 0 && at[1] == 0 && at[2] == 1) {
            struct reader in = {at + 4, packet->payload_size - place - 4, 0};
            int kind = at[3] & 31;
            if (kind == 7)
                read_parameters(own, &in);
            else if ((kind == 1 || kind == 5) && at[4] & 0x80)
                picture(own, &in, kind == 5, stamp);
        }
    }
    if (packet->flags & CUVID_PKT_ENDOFSTREAM)
        show(own, 1);
    return CUDA_SUCCESS;
}
CUresult cuvidDestroyVideoParser(struct parser *own) { free(own); return CUDA_SUCCESS; }

#define PLAIN(name) CUresult name(void) { return CUDA_SUCCESS; }
PLAIN(cuvidCtxLockDestroy) PLAIN(cuvidCtxLock) PLAIN(cuvidCtxUnlock) PLAIN(cuvidCreateVideoSource)
PLAIN(cuvidCreateVideoSourceW) PLAIN(cuvidDestroyVideoSource) PLAIN(cuvidSetVideoSourceState)
PLAIN(cuvidGetVideoSourceState) PLAIN(cuvidGetSourceVideoFormat) PLAIN(cuvidGetSourceAudioFormat)
