/* base.h: status codes, version and linkage shared by every public header. */
#ifndef NESTOR_BASE_H
#define NESTOR_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define NST_API                 __attribute__((visibility("default")))
#define NST_MUST_CHECK          __attribute__((warn_unused_result))
#define NST_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define NST_API
#define NST_MUST_CHECK
#define NST_PRINTF(text, first)
#endif

#define NST_VERSION_MAJOR 0
#define NST_VERSION_MINOR 1
#define NST_VERSION_PATCH 0

typedef enum NstStatus {
#define NST_STATUS(name, value, fault, meaning) NST_##name = (value),
#include "nestor/status.def"
#undef NST_STATUS
} NstStatus;

/* The name of a status ("NST_E_SHAPE"); "NST_E_?" for a value that is none.  Static storage.  Thread-safe. */
NST_API const char *nst_status_name(NstStatus status);

/* One line that says what a status means.  Static storage.  Thread-safe. */
NST_API const char *nst_status_meaning(NstStatus status);

/* The library's version, "0.1.0".  Static storage.  Thread-safe. */
NST_API const char *nst_version(void);

#ifdef __cplusplus
}
#endif
#endif
