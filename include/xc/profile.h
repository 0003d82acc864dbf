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
  uint32_t struct_size;     /* set by the caller */
  uint32_t reserved;        /* 0 */
  int64_t runs;             /* of the session so far */
  int64_t signatures;       /* input signatures bound; one that comes when it was evicted again */
  int64_t compiled_regions; /* fused kernels compiled */
  int64_t swapped;          /* plans published after a kernel was accepted */
  int64_t rolled_back;      /* accepted, then found slower and taken out */
  int64_t rejected;         /* compiled, and measured not faster */
  int64_t code_bytes;       /* executable memory in use */
  int64_t bound_bytes;      /* memory of plans bound to signatures, evicted ones that a run may be
                             * in included */
  double compile_ms;        /* CPU of background work: packing, search, compiling, verification */
  double net_saved_ms;      /* time saved on runs so far, minus compile_ms; negative at first */
  int64_t working_bytes;    /* arenas, scratch and outputs of all runs of the engine */
  int64_t queued;           /* background jobs waiting, of all sessions of the engine */
  int64_t events_dropped;   /* older events that are no longer kept */
} xc_counters;
#define XC_COUNTERS_INIT {sizeof(xc_counters), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0, 0, 0, 0}

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
  double predicted_us;   /* what it was expected to take, at the sizes seen last */
  double compile_ms;     /* CPU of making its code */
  int64_t code_bytes;
  xc_string_view program; /* the graph, or body of control flow, that it is part of */
  int64_t calls;          /* of that program, estimated from samples */
  double net_saved_ms;    /* saved on calls and in trials, minus compile_ms; negative at first */
  double worst_error;     /* verification's largest deviation over what is allowed there */
} xc_region;
#define XC_REGION_INIT                                                                      \
  {sizeof(xc_region), 0, {0, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, 0, 0.0, 0.0, 0.0, 0.0, 0, \
   {NULL, 0},         0, 0.0,    0.0}

/* A region on one class of shapes: the sizes that are free in the model. Times are per call of the
 * program, all places of the region together; 0 = not measured. */
typedef struct xc_region_shape {
  uint32_t struct_size;      /* set by the caller */
  uint32_t before_estimated; /* 1 = never measured on these shapes: from the trial's ratio */
  xc_string_view shape;      /* "n=128 m=4"; "fixed" without free sizes; "others": the rest */
  int64_t calls;             /* estimated from samples */
  int64_t live_calls;        /* of those, by the region's own kernel */
  double before_us;    /* by what the region replaces: the trial's median, until then a mean */
  double fused_us;     /* by the region: the trial's median */
  double now_us;       /* mean of what runs now */
  double predicted_us; /* by the region, before it was measured */
  double saved_ms;     /* on all live calls */
} xc_region_shape;
#define XC_REGION_SHAPE_INIT {sizeof(xc_region_shape), 0, {NULL, 0}, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0}

/* Values of xc_event.kind, with the numbers that an event of the kind carries besides time_ns, run
 * and queue. */
enum {
  XC_EVENT_CANDIDATE = 1,     /* a region was found: places, base_us, predicted_us */
  XC_EVENT_COMPILED = 2,      /* compile_ms, wall_ms, code_bytes, predicted_us */
  XC_EVENT_REFUSED = 3,       /* not compiled or not kept: compile_ms, back_off_s */
  XC_EVENT_VERIFIED = 4,      /* agrees with what it replaces: worst_error, wall_ms */
  XC_EVENT_MISMATCH = 5,      /* does not: banned; worst_error, compile_ms, back_off_s */
  XC_EVENT_TRIAL = 6,         /* a trial on live runs began: base_us, predicted_us */
  XC_EVENT_ACCEPTED = 7,      /* measured faster and published: base_us, fused_us, predicted_us,
                                 samples, shapes, compile_ms, code_bytes, wall_ms */
  XC_EVENT_REJECTED = 8,      /* measured not faster: base_us, fused_us, predicted_us, samples,
                                 shapes, compile_ms, wall_ms, back_off_s */
  XC_EVENT_ROLLED_BACK = 9,   /* was accepted, became slower: the same */
  XC_EVENT_PREPARED = 10,     /* weights packed, kernels replaced: wall_ms */
  XC_EVENT_JIT_DISABLED = 11, /* no code in this process: compile_ms, back_off_s */
  XC_EVENT_QUEUED = 12,       /* running on without it has cost what compiling does: regret_ms,
                                 price_ms, base_us, predicted_us, budget_ms */
  XC_EVENT_TRIAL_SAMPLE = 13, /* a trial, not decided yet: base_us, fused_us, samples, shapes */
  XC_EVENT_KEPT = 14,         /* doubted, tried again and kept: as accepted */
  XC_EVENT_POSTPONED = 15,    /* background work waits for the compile budget: budget_ms */
  XC_EVENT_EVICTED = 16,      /* plans dropped to stay below a cap: shapes, bytes */
  XC_EVENT_SEARCHED = 17,     /* the graph was searched for regions: places, wall_ms */
  XC_EVENT_FROZEN = 18,       /* the host ended adaptation */
  XC_EVENT_LOADED = 19,       /* code of an earlier process, from the cache: code_bytes */
  XC_EVENT_CACHE = 20         /* the cache, or an entry of it, is not used; detail says why */
};

typedef struct xc_event {
  uint32_t struct_size; /* set by whoever provides the memory */
  int32_t kind;
  int64_t time_ns;    /* since the engine was created; never goes back */
  uint64_t region[2]; /* identity; 0, 0 when not about a region */
  xc_string_view kind_name;
  xc_string_view subject; /* the region's name */
  xc_string_view detail;  /* reason or note */
  double compile_ms;      /* this and the next four as in xc_region */
  double base_us;
  double fused_us;
  double predicted_us;
  int64_t code_bytes;
  uint64_t run;       /* runs of the session when it happened */
  double wall_ms;     /* how long what is reported took; it ended at time_ns */
  double regret_ms;   /* what running on without the region has cost */
  double price_ms;    /* what regret has to reach before compiling pays */
  double worst_error; /* largest deviation in units of what is allowed; above 1 = wrong */
  double back_off_s;  /* until a banned region may come back; negative = never */
  double budget_ms;   /* compile CPU that may be spent now; negative = overdrawn */
  int64_t samples;    /* timed runs of the side of a trial that has fewer */
  int64_t shapes;     /* input signatures that took part, or were dropped */
  int64_t places;     /* of the region in the model; or regions found */
  int64_t queue;      /* background jobs waiting */
  int64_t bytes;      /* of memory let go */
} xc_event;
#define XC_EVENT_INIT \
  {sizeof(xc_event),  \
   0,                 \
   0,                 \
   {0, 0},            \
   {NULL, 0},         \
   {NULL, 0},         \
   {NULL, 0},         \
   0.0,               \
   0.0,               \
   0.0,               \
   0.0,               \
   0,                 \
   0,                 \
   0.0,               \
   0.0,               \
   0.0,               \
   0.0,               \
   0.0,               \
   0.0,               \
   0,                 \
   0,                 \
   0,                 \
   0,                 \
   0}

/* The counters. Fails with XC_INVALID_ARGUMENT (struct_size). @since 0.1 @stability stable */
XC_API XC_NODISCARD xc_status xc_profile_counters(const xc_profile* profile,
                                                  xc_counters* out_counters);

/* Number of regions known to the session. @since 0.1 @stability stable */
XC_API uint32_t xc_profile_region_count(const xc_profile* profile);
/* Region `index`. Fails with XC_INVALID_ARGUMENT. @since 0.1 @stability stable */
XC_API XC_NODISCARD xc_status xc_profile_region(const xc_profile* profile, uint32_t index,
                                                xc_region* out_region);

/* Shape classes of region `region`, most calls first; 0 for a region that is not there.
 * @since 0.1 @stability stable */
XC_API uint32_t xc_profile_shape_count(const xc_profile* profile, uint32_t region);
/* Shape class `index` of region `region`. Fails with XC_INVALID_ARGUMENT.
 * @since 0.1 @stability stable */
XC_API XC_NODISCARD xc_status xc_profile_shape(const xc_profile* profile, uint32_t region,
                                               uint32_t index, xc_region_shape* out_shape);

/* Number of events kept, in the order of time: of many the first 1,024 and the last 3,072.
 * @since 0.1 @stability stable */
XC_API uint32_t xc_profile_event_count(const xc_profile* profile);
/* Event `index`. Fails with XC_INVALID_ARGUMENT. @since 0.1 @stability stable */
XC_API XC_NODISCARD xc_status xc_profile_event(const xc_profile* profile, uint32_t index,
                                               xc_event* out_event);

/* All of the profile as JSON: {"counters": {...}, "regions": [{..., "shapes": [...]}], "events":
 * [...]}, keys as the fields above; an event has the numbers of its kind. The caller destroys the
 * blob. Fails with XC_INVALID_ARGUMENT, XC_OUT_OF_MEMORY. @since 0.1 @stability stable */
XC_API XC_NODISCARD xc_status xc_profile_json(const xc_profile* profile, xc_blob** out_json,
                                              xc_error** out_error);

/* One event as JSON on one line, as in xc_profile_json(); also for events given to a listener. Any
 * thread. The caller destroys the blob. Fails with XC_INVALID_ARGUMENT, XC_OUT_OF_MEMORY.
 * @since 0.1 @stability stable */
XC_API XC_NODISCARD xc_status xc_event_json(const xc_event* event, xc_blob** out_json,
                                            xc_error** out_error);

/* Frees the profile. NULL is allowed. @since 0.1 @stability stable */
XC_API void xc_profile_destroy(xc_profile* profile);

#ifdef __cplusplus
}
#endif
#endif /* XC_PROFILE_H */
