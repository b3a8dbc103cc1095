/* A stand-in for the driver's encode library: it offers an API of choice, and refuses sessions with a status of choice.
   NVENC_API is "major.minor" (13.0 if not set), NVENC_STATUS the number that opening a session gives. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void offered(unsigned *major, unsigned *minor)
{
    const char *text = getenv("NVENC_API");
    *major = 13;
    *minor = 0;
    if (text)
        sscanf(text, "%u.%u", major, minor);
}

static int open_session(void *parameters, void **encoder)
{
    (void)parameters;
    *encoder = (void *)0x1;
    return atoi(getenv("NVENC_STATUS") ? getenv("NVENC_STATUS") : "2");
}

static int nothing(void) { return 0; }

static const char *no_details(void *encoder)
{
    (void)encoder;
    return "(no details)";
}

int NvEncodeAPIGetMaxSupportedVersion(uint32_t *version)
{
    unsigned major, minor;
    offered(&major, &minor);
    *version = major << 4 | minor;
    return 0;
}

/* The list of functions: a word of version, one reserved, then pointers; openEncodeSessionEx stands at byte 240. */
int NvEncodeAPICreateInstance(void *list)
{
    void **slot = (void **)((char *)list + 8);
    int place;
    for (place = 0; place < 40; place++)
        slot[place] = (void *)nothing;
    *(void **)((char *)list + 240) = (void *)open_session;
    *(void **)((char *)list + 248) = (void *)nothing;
    slot[36] = (void *)no_details;
    return 0;
}
