/* support_clones.h: CLONES before a function: its loops are compiled for AVX2 with FMA and for AVX-512 too, and which copy
 * runs is chosen at load time.  (Without fma hardware fmaf comes from libm: the same bits, slower.) */
#ifndef NST_TESTS_SUPPORT_CLONES_H
#define NST_TESTS_SUPPORT_CLONES_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NO_CLONES 1 /* a resolver runs before the sanitizer is ready */
#endif
#endif
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(NO_CLONES)
#define CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CLONES
#endif

#endif
