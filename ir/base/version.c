/* version.c: the library's version and the texts of the status codes. */
#include "nestor/base.h"

#define TEXT(x)       #x
#define DOTS(a, b, c) TEXT(a) "." TEXT(b) "." TEXT(c)

const char *nst_status_name(NstStatus status)
{
    switch (status) {
#define NST_STATUS(name, value, fault, meaning)                                                                        \
    case NST_##name: return "NST_" #name;
#include "nestor/status.def"
#undef NST_STATUS
    }
    return "NST_E_?";
}

const char *nst_status_meaning(NstStatus status)
{
    switch (status) {
#define NST_STATUS(name, value, fault, meaning)                                                                        \
    case NST_##name: return meaning;
#include "nestor/status.def"
#undef NST_STATUS
    }
    return "no status of this version";
}

const char *nst_version(void)
{
    return DOTS(NST_VERSION_MAJOR, NST_VERSION_MINOR, NST_VERSION_PATCH);
}
