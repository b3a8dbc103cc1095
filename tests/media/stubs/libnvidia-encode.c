/* A stand-in for the driver's encode library. It offers an API of choice, and refuses sessions with a status of choice;
   with status 0 it encodes, without compression, every picture that it is handed. No chip does anything here.
   NVENC_API is "major.minor" (13.0 if not set), NVENC_STATUS the number that opening a session gives (2 if not set).
   NVENC_FAULT plants a fault: "drop:N" (frame N is not in the stream), "size", "grey", "hang:N", "memory".
   NVENC_CAP is how many sessions may be open at once, counted in the file NVENC_SESSIONS. */
#include <ffnvcodec/nvEncodeAPI.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include "bitstream.h"

struct session { int is_h265, width, height, is_counted; unsigned frames; };
struct surface { uint8_t *data; int pitch, height, format, is_own; };
struct output { uint8_t *data; size_t bytes; uint64_t stamp; };

static const char *setting(const char *name) { return getenv(name) ? getenv(name) : ""; }
static int fault(const char *kind) { return !strncmp(setting("NVENC_FAULT"), kind, strlen(kind)); }
static unsigned fault_at(void) { const char *colon = strchr(setting("NVENC_FAULT"), ':'); return colon ? atoi(colon + 1) : 0; }

/* Adds to the number of open sessions, unless that would be more than there may be. */
static int counted(int change)
{
    int file, open_now = 0, most = atoi(setting("NVENC_CAP"));
    char text[16] = "";
    if (!most)
        return 1;
    file = open(setting("NVENC_SESSIONS"), O_RDWR | O_CREAT, 0600);
    flock(file, LOCK_EX);
    if (pread(file, text, sizeof text - 1, 0) > 0)
        open_now = atoi(text);
    if (open_now + change <= most) {
        snprintf(text, sizeof text, "%-8d", open_now + change);
        if (pwrite(file, text, 8, 0) != 8)
            most = 0;
    } else
        most = 0;
    close(file);
    return most != 0;
}

static NVENCSTATUS NVENCAPI open_session(NV_ENC_OPEN_ENCODE_SESSION_EX_PARAMS *asked, void **encoder)
{
    struct session *made = calloc(1, sizeof *made);
    int status = atoi(getenv("NVENC_STATUS") ? getenv("NVENC_STATUS") : "2");
    (void)asked;
    *encoder = made;
    if (status)
        return status;
    if (!counted(1))
        return NV_ENC_ERR_INCOMPATIBLE_CLIENT_KEY;
    made->is_counted = 1;
    return NV_ENC_SUCCESS;
}
static NVENCSTATUS NVENCAPI close_session(void *encoder)
{
    if (((struct session *)encoder)->is_counted)
        counted(-1);
    free(encoder);
    return NV_ENC_SUCCESS;
}
static NVENCSTATUS NVENCAPI codec_count(void *encoder, uint32_t *count) { (void)encoder; *count = 2; return NV_ENC_SUCCESS; }
static NVENCSTATUS NVENCAPI codecs(void *encoder, GUID *list, uint32_t room, uint32_t *count)
{
    (void)encoder; (void)room;
    list[0] = NV_ENC_CODEC_H264_GUID;
    list[1] = NV_ENC_CODEC_HEVC_GUID;
    *count = 2;
    return NV_ENC_SUCCESS;
}
static NVENCSTATUS NVENCAPI capability(void *encoder, GUID codec, NV_ENC_CAPS_PARAM *asked, int *value)
{
    (void)encoder; (void)codec;
    switch (asked->capsToQuery) {
    case NV_ENC_CAPS_WIDTH_MAX: case NV_ENC_CAPS_HEIGHT_MAX: *value = 4096; break;
    case NV_ENC_CAPS_NUM_MAX_BFRAMES: *value = 4; break;
    case NV_ENC_CAPS_SUPPORT_BFRAME_REF_MODE: *value = 3; break;
    case NV_ENC_CAPS_SUPPORT_10BIT_ENCODE: case NV_ENC_CAPS_SUPPORT_YUV444_ENCODE: *value = 0; break;
    default: *value = 1;
    }
    return NV_ENC_SUCCESS;
}
static NVENCSTATUS preset(NV_ENC_PRESET_CONFIG *config)
{
    config->presetCfg.gopLength = 250;
    config->presetCfg.frameIntervalP = 1;
    return NV_ENC_SUCCESS;
}
static NVENCSTATUS NVENCAPI old_preset(void *encoder, GUID codec, GUID name, NV_ENC_PRESET_CONFIG *config)
{
    (void)encoder; (void)codec; (void)name;
    return preset(config);
}
static NVENCSTATUS NVENCAPI new_preset(void *encoder, GUID codec, GUID name, NV_ENC_TUNING_INFO tuning, NV_ENC_PRESET_CONFIG *config)
{
    (void)encoder; (void)codec; (void)name; (void)tuning;
    return preset(config);
}
static NVENCSTATUS NVENCAPI initialize(void *encoder, NV_ENC_INITIALIZE_PARAMS *how)
{
    struct session *own = encoder;
    own->is_h265 = !memcmp(&how->encodeGUID, &NV_ENC_CODEC_HEVC_GUID, sizeof(GUID));
    own->width = how->encodeWidth - (fault("size") ? 16 : 0);
    own->height = how->encodeHeight;
    return fault("memory") ? NV_ENC_ERR_OUT_OF_MEMORY : NV_ENC_SUCCESS;
}
static NVENCSTATUS NVENCAPI make_input(void *encoder, NV_ENC_CREATE_INPUT_BUFFER *made)
{
    struct surface *own = calloc(1, sizeof *own);
    (void)encoder;
    own->pitch = (made->width + 255) / 256 * 256;
    own->height = made->height;
    own->format = made->bufferFmt;
    own->data = calloc((size_t)own->pitch, own->height * 2);
    own->is_own = 1;
    made->inputBuffer = own;
    return NV_ENC_SUCCESS;
}
static NVENCSTATUS NVENCAPI drop_input(void *encoder, void *input)
{
    struct surface *own = input;
    (void)encoder;
    if (own->is_own)
        free(own->data);
    free(own);
    return NV_ENC_SUCCESS;
}
static NVENCSTATUS NVENCAPI lock_input(void *encoder, NV_ENC_LOCK_INPUT_BUFFER *locked)
{
    struct surface *own = locked->inputBuffer;
    (void)encoder;
    locked->bufferDataPtr = own->data;
    locked->pitch = own->pitch;
    return NV_ENC_SUCCESS;
}
static NVENCSTATUS NVENCAPI register_frame(void *encoder, NV_ENC_REGISTER_RESOURCE *made)
{
    struct surface *own = calloc(1, sizeof *own);
    (void)encoder;
    own->data = made->resourceToRegister;
    own->pitch = made->pitch;
    own->height = made->height;
    own->format = made->bufferFormat;
    made->registeredResource = own;
    return NV_ENC_SUCCESS;
}
static NVENCSTATUS NVENCAPI map_frame(void *encoder, NV_ENC_MAP_INPUT_RESOURCE *mapped)
{
    (void)encoder;
    mapped->mappedResource = mapped->registeredResource;
    mapped->mappedBufferFmt = ((struct surface *)mapped->registeredResource)->format;
    return NV_ENC_SUCCESS;
}
static NVENCSTATUS NVENCAPI make_output(void *encoder, NV_ENC_CREATE_BITSTREAM_BUFFER *made)
{
    (void)encoder;
    made->bitstreamBuffer = calloc(1, sizeof(struct output));
    return NV_ENC_SUCCESS;
}
static NVENCSTATUS NVENCAPI drop_output(void *encoder, void *output)
{
    (void)encoder;
    free(((struct output *)output)->data);
    free(output);
    return NV_ENC_SUCCESS;
}
static size_t headers(const struct session *own, uint8_t *to)
{
    uint8_t room[256];
    struct bits unit = {.data = room};
    return own->is_h265 ? h265_headers(to, &unit, own->width, own->height) : h264_headers(to, &unit, own->width, own->height);
}
static NVENCSTATUS NVENCAPI sequence(void *encoder, NV_ENC_SEQUENCE_PARAM_PAYLOAD *asked)
{
    *asked->outSPSPPSPayloadSize = (uint32_t)headers(encoder, asked->spsppsBuffer);
    return NV_ENC_SUCCESS;
}
static struct picture picture_of(const struct session *own, const struct surface *in)
{
    struct picture found = {.luma = in->data, .pitch = in->pitch, .width = own->width, .height = own->height};
    const uint8_t *chroma = in->data + (size_t)in->pitch * in->height;
    if (in->format == NV_ENC_BUFFER_FORMAT_NV12) {
        found.chroma_pitch = in->pitch;
        found.step = 2;
        found.blue = chroma;
        found.red = chroma + 1;
    } else {  /* three planes, red before blue */
        found.chroma_pitch = in->pitch / 2;
        found.step = 1;
        found.red = chroma;
        found.blue = chroma + (size_t)in->pitch / 2 * (in->height / 2);
    }
    return found;
}
static NVENCSTATUS NVENCAPI encode(void *encoder, NV_ENC_PIC_PARAMS *given)
{
    struct session *own = encoder;
    struct output *out = given->outputBitstream;
    struct picture in;
    struct bits unit = {0};
    size_t most;
    unsigned number = own->frames;
    if (given->encodePicFlags & NV_ENC_PIC_FLAG_EOS)
        return NV_ENC_SUCCESS;
    own->frames++;
    while (fault("hang") && number == fault_at())
        pause();
    in = picture_of(own, given->inputBuffer);
    most = (size_t)(own->width + 16) * (own->height + 16) * 2 + 4096;
    unit.data = malloc(most);
    out->data = realloc(out->data, most * 3 / 2);
    out->bytes = headers(own, out->data);
    out->stamp = given->inputTimeStamp;
    if (fault("drop") && number == fault_at())
        ;
    else if (own->is_h265)
        out->bytes += h265_picture(out->data + out->bytes, &unit, &in, own->width, own->height);
    else
        out->bytes += h264_picture(out->data + out->bytes, &unit, fault("grey") ? NULL : &in, own->width, own->height, number);
    free(unit.data);
    return NV_ENC_SUCCESS;
}
static NVENCSTATUS NVENCAPI lock_output(void *encoder, NV_ENC_LOCK_BITSTREAM *locked)
{
    struct output *out = locked->outputBitstream;
    (void)encoder;
    locked->bitstreamBufferPtr = out->data;
    locked->bitstreamSizeInBytes = (uint32_t)out->bytes;
    locked->outputTimeStamp = out->stamp;
    locked->pictureType = NV_ENC_PIC_TYPE_IDR;
    locked->pictureStruct = NV_ENC_PIC_STRUCT_FRAME;
    locked->numSlices = 1;
    return NV_ENC_SUCCESS;
}
static NVENCSTATUS nothing(void) { return NV_ENC_SUCCESS; }
static const char *NVENCAPI no_details(void *encoder) { (void)encoder; return "(no details)"; }

NVENCSTATUS NVENCAPI NvEncodeAPIGetMaxSupportedVersion(uint32_t *offered)
{
    unsigned major = 13, minor = 0;
    sscanf(setting("NVENC_API"), "%u.%u", &major, &minor);
    *offered = major << 4 | minor;
    return NV_ENC_SUCCESS;
}

NVENCSTATUS NVENCAPI NvEncodeAPICreateInstance(NV_ENCODE_API_FUNCTION_LIST *list)
{
    void **slot = (void **)&list->nvEncOpenEncodeSession;
    int place;
    for (place = 0; place < 40; place++)
        slot[place] = (void *)nothing;
    list->nvEncOpenEncodeSessionEx = open_session;
    list->nvEncDestroyEncoder = close_session;
    list->nvEncGetEncodeGUIDCount = codec_count;
    list->nvEncGetEncodeGUIDs = codecs;
    list->nvEncGetEncodeCaps = capability;
    list->nvEncGetEncodePresetConfig = old_preset;
    list->nvEncGetEncodePresetConfigEx = new_preset;
    list->nvEncInitializeEncoder = initialize;
    list->nvEncCreateInputBuffer = make_input;
    list->nvEncDestroyInputBuffer = drop_input;
    list->nvEncLockInputBuffer = lock_input;
    list->nvEncRegisterResource = register_frame;
    list->nvEncUnregisterResource = drop_input;
    list->nvEncMapInputResource = map_frame;
    list->nvEncCreateBitstreamBuffer = make_output;
    list->nvEncDestroyBitstreamBuffer = drop_output;
    list->nvEncGetSequenceParams = sequence;
    list->nvEncEncodePicture = encode;
    list->nvEncLockBitstream = lock_output;
    list->nvEncGetLastErrorString = no_details;
    return NV_ENC_SUCCESS;
}
