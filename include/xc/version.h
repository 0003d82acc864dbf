/* Version of the headers (macros) and of the loaded library (functions).
 *
 * A program built against 0.x.y runs with any later library 0.x.z; from 1.0 on with any later
 * library of the same major version.
 */
#ifndef XC_VERSION_H
#define XC_VERSION_H

#include <xc/types.h>

#define XC_VERSION_MAJOR 0
#define XC_VERSION_MINOR 1
#define XC_VERSION_PATCH 0
/* 1000000 * major + 1000 * minor + patch */
#define XC_VERSION_NUMBER (XC_VERSION_MAJOR * 1000000 + XC_VERSION_MINOR * 1000 + XC_VERSION_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the loaded library as text, "0.1.0". Static storage. Any thread. Never fails.
 * @since 0.1 @stability stable */
XC_API const char* xc_runtime_version(void);

/* The same as a number, to compare with XC_VERSION_NUMBER. Any thread. Never fails.
 * @since 0.1 @stability stable */
XC_API int32_t xc_runtime_version_number(void);

#ifdef __cplusplus
}
#endif
#endif /* XC_VERSION_H */
