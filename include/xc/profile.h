/* Profiles: a snapshot of what a session has learnt and done, and the events it consists of.
 *
 * Threads: immutable, any thread may read one. Ownership: single; text lives as long as the profile
 * (as the callback, for events given to a listener).
 */
#ifndef XC_PROFILE_H
#define XC_PROFILE_H

#include <xc/error.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct xc_counters {
  uint32_t struct_size; /* set by the caller */
  uint32_t reserved;    /* 0 */
  int64_t runs;
  int64_t signatures;       /* distinct input signatures met */
  int64_t compiled_regions; /* fused kernels compiled */
  int64_t swapped;          /* plans published after a kernel was accepted */
  int64_t rolled_back;      /* accepted, then found slower and taken out */
  int64_t rejected;         /* compiled, and measured not faster */
  int64_t code_bytes;       /* executable memory in use */
  int64_t bound_bytes;      /* memory of plans bound to signatures */
  double compile_ms;        /* CPU spent on search, compilation and verification */
  double net_saved_ms;      /* time saved on runs so far, minus compile_ms */
} xc_counters;
#define XC_COUNTERS_INIT {sizeof(xc_counters), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0}

/* A fused region: a set of nodes that one generated kernel executes. */
typedef struct xc_region {
  uint32_t struct_size; /* set by the caller */
  uint32_t reserved;    /* 0 */
  uint64_t identity[2]; /* hash of what it computes; equal regions share it */
  xc_string_view name;
  xc_string_view state;  /* candidate, queued, verifying, ready, trial, live, banned */
  xc_string_view reason; /* of the last refusal, or empty */
  int64_t uses;          /* places in the model */
  double base_us;        /* measured time per call of what it replaces; 0 = not measured */
  double fused_us;       /* measured time per call of the region; 0 = not measured */
  double predicted_us;
  double compile_ms;
  int64_t code_bytes;
} xc_region;
#define XC_REGION_INIT \
  {sizeof(xc_region), 0, {0, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, 0, 0.0, 0.0, 0.0, 0.0, 0}

/* Values of xc_event.kind. */
enum {
  XC_EVENT_CANDIDATE = 1,   /* a region was found; predicted_us */
  XC_EVENT_COMPILED = 2,    /* compile_ms, code_bytes */
  XC_EVENT_REFUSED = 3,     /* not compiled or not kept; detail says why */
  XC_EVENT_VERIFIED = 4,    /* agrees with what it replaces */
  XC_EVENT_MISMATCH = 5,    /* does not agree: banned */
  XC_EVENT_TRIAL = 6,       /* a trial on live runs began */
  XC_EVENT_ACCEPTED = 7,    /* measured faster and published; base_us, fused_us */
  XC_EVENT_REJECTED = 8,    /* measured not faster */
  XC_EVENT_ROLLED_BACK = 9, /* was accepted, became slower */
  XC_EVENT_PREPARED = 10,   /* weights packed, kernels replaced */
  XC_EVENT_JIT_DISABLED = 11,
  XC_EVENT_LOADED = 12, /* code of an earlier process, from the cache; code_bytes */
  XC_EVENT_CACHE = 13   /* the cache, or an entry of it, is not used; detail says why */
};

typedef struct xc_event {
  uint32_t struct_size; /* set by whoever provides the memory */
  int32_t kind;
  int64_t time_ns;    /* steady clock */
  uint64_t region[2]; /* identity; 0, 0 when not about a region */
  xc_string_view kind_name;
  xc_string_view subject; /* the region's name */
  xc_string_view detail;  /* reason or note */
  double compile_ms;
  double base_us;
  double fused_us;
  double predicted_us;
  int64_t code_bytes;
  uint64_t run; /* runs of the session when it happened */
} xc_event;
#define XC_EVENT_INIT \
  {sizeof(xc_event), 0, 0, {0, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, 0.0, 0.0, 0.0, 0.0, 0, 0}

/* The counters. Fails with XC_INVALID_ARGUMENT (struct_size). @since 0.1 @stability stable */
XC_API XC_NODISCARD xc_status xc_profile_counters(const xc_profile* profile,
                                                  xc_counters* out_counters);

/* Regions known to the session. @since 0.1 @stability stable */
XC_API uint32_t xc_profile_region_count(const xc_profile* profile);
/* Region `index`. Fails with XC_INVALID_ARGUMENT. @since 0.1 @stability stable */
XC_API XC_NODISCARD xc_status xc_profile_region(const xc_profile* profile, uint32_t index,
                                                xc_region* out_region);

/* Events kept, oldest first. @since 0.1 @stability stable */
XC_API uint32_t xc_profile_event_count(const xc_profile* profile);
/* Event `index`. Fails with XC_INVALID_ARGUMENT. @since 0.1 @stability stable */
XC_API XC_NODISCARD xc_status xc_profile_event(const xc_profile* profile, uint32_t index,
                                               xc_event* out_event);

/* Frees the profile. NULL is allowed. @since 0.1 @stability stable */
XC_API void xc_profile_destroy(xc_profile* profile);

#ifdef __cplusplus
}
#endif
#endif /* XC_PROFILE_H */
