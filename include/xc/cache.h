/* The persistent cache of xc_config.cache_dir: what lies in a directory, and making room.
 *
 * Threads and processes: any number at once, also while engines use the directory; files that
 * appear or go away meanwhile are seen or not. No handle: the directory is named in each call.
 */
#ifndef XC_CACHE_H
#define XC_CACHE_H

#include <xc/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Values of xc_cache_entry.kind. */
enum {
  XC_CACHE_OBJECT = 1,  /* machine code of a region */
  XC_CACHE_PROFILE = 2, /* what was learnt of a model */
  XC_CACHE_POISON = 3,  /* code that a process did not survive: not tried for a while */
  XC_CACHE_HOST = 4     /* speeds measured of the machine */
};

typedef struct xc_cache_entry {
  uint32_t struct_size; /* set by whoever provides the memory */
  int32_t kind;         /* 0, and no kind_name and subject, when the file is no sound entry */
  xc_string_view name;  /* of the file */
  xc_string_view kind_name;
  xc_string_view subject; /* what it is about, for people */
  xc_string_view problem; /* why engines would ignore it; empty = it is sound */
  int64_t bytes;
  int64_t last_use; /* seconds since 1970, exact to an hour */
  double worth_s;   /* CPU seconds that finding it saves */
} xc_cache_entry;

/* Calls `visit` for every entry, in the order of names, after reading and checking it. `entry` and
 * its text are valid during the call. Fails with XC_NOT_FOUND (no such directory) and XC_IO (it
 * cannot be read, belongs to somebody else, or others can write it). @since 0.1 @stability
 * experimental */
XC_API XC_NODISCARD xc_status xc_cache_visit(const char* directory,
                                             void (*visit)(void* user_data,
                                                           const xc_cache_entry* entry),
                                             void* user_data, xc_error** out_error);

/* Removes entries, those worth least first, until at most `max_bytes` are left; 0 removes all.
 * Files that are not the cache's stay. `out_removed` (may be NULL): how many files are gone;
 * `out_left_bytes` (may be NULL): what is left. Fails as xc_cache_visit, and with
 * XC_INVALID_ARGUMENT for a negative `max_bytes`. @since 0.1 @stability experimental */
XC_API XC_NODISCARD xc_status xc_cache_prune(const char* directory, int64_t max_bytes,
                                             int64_t* out_removed, int64_t* out_left_bytes,
                                             xc_error** out_error);

#ifdef __cplusplus
}
#endif
#endif /* XC_CACHE_H */
