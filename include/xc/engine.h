/* The engine: settings, threads, host callbacks and the compiler that sessions share.
 *
 * Threads: every function may be called from any thread at any time on one engine. Callbacks may
 * come from any thread, several at once, and never with a lock of the library held; they must not
 * throw. They run in the default floating-point environment, as all of the library does: what the
 * host has set (rounding, flushed denormals, traps) changes no result, and is set again, flags
 * included, behind every function. Ownership: shared. Models and sessions keep their engine alive.
 */
#ifndef XC_ENGINE_H
#define XC_ENGINE_H

#include <stddef.h>
#include <xc/operator.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- settings ---- */

/* Values of xc_config.jit. */
enum {
  XC_JIT_AUTO = 0,  /* compile in the background while running */
  XC_JIT_OFF = 1,   /* never compile */
  XC_JIT_SYNC = 2,  /* compile at the first use of a shape: tests, warm-up */
  XC_JIT_FREEZE = 3 /* use what the cache holds, add nothing */
};
/* Values of xc_config.numerics. */
enum {
  XC_NUMERICS_TOLERANT = 0, /* a swap of kernels stays within stated bounds */
  XC_NUMERICS_FAST = 1,     /* products by weights in bf16, functions within 2^-11: README.md */
  XC_NUMERICS_STRICT = 2    /* a swap of kernels changes no bit, nor do modes or threads */
};
/* Values of xc_config.isa: the most that generated code may use. */
enum { XC_ISA_BEST = 0, XC_ISA_BASELINE = 1, XC_ISA_AVX2 = 2, XC_ISA_AVX512 = 3 };
/* Values of xc_config.kernels. */
enum { XC_KERNELS_BEST = 0, XC_KERNELS_REFERENCE = 1 };
/* Values of xc_config.rules, fusion, layouts, post_ops, winograd and bands, which are on unless
 * said otherwise; XC_ALWAYS, wherever it can be, is one of bands alone. */
enum { XC_ON = 0, XC_OFF = 1, XC_ALWAYS = 2 };

/* The knobs. Zero always means the default, so a zeroed struct with its size set is valid. Each
 * field has a name (its own), an environment variable and a doc line: see xc_config_option(). Those
 * marked "engine" are refused in the options of a session, and so is strict numerics there unless
 * the engine is strict: see xc_session_options. */
typedef struct xc_config {
  uint32_t struct_size; /* = sizeof(xc_config) */
  uint32_t reserved;    /* 0 */
  int64_t threads;  /* engine: workers of a run, the caller included; 0 = all cores it may use */
  int64_t jit;      /* XC_JIT_... */
  int64_t numerics; /* XC_NUMERICS_... */
  int64_t code_cache_bytes;  /* engine: executable memory; 0 = 64 MiB */
  int64_t bound_cache_bytes; /* plans bound to shapes, per session with its loops and branches: over
                              * it the oldest go, but for those of the last four shapes (of each
                              * body too) and of prepared calls; 0 = 24 MiB */
  int64_t max_memory_bytes;  /* of values and results of one run, its loops and bodies included, and
                              * of copies of inputs that are not row-major: over it a run fails with
                              * XC_LIMIT before it allocates them (containers and sizes that only a
                              * step finds out: behind that step); 0 = no cap */
  int64_t compile_cpu_percent; /* engine: of the process's CPU, for background work; 0 = 2 */
  int64_t copy_weights;        /* engine: 1 = read the model file instead of mapping it */
  int64_t isa;                 /* engine: XC_ISA_... */
  int64_t force_swap;          /* testing: another plan at every run */
  int64_t verify_passes;       /* engine: 1 = verify the graph after every pass */
  int64_t poison_arena;        /* testing: working memory starts as NaN patterns */
  int64_t rules;               /* engine: pattern rules; XC_ON, XC_OFF */
  int64_t fusion;              /* fused regions; XC_ON, XC_OFF */
  int64_t trace_compiles;      /* engine: 1 = keep code of compiled regions for explain */
  const char* cache_dir; /* persistent cache; NULL or "" = off. Machine code found there is run:
                            it is used only when it belongs to this user and nobody else can
                            write it, and made so. Borrowed until the engine or session is
                            created */
  int64_t kernels;       /* XC_KERNELS_...; on reference kernels, all slow, to find a wrong one */
  int64_t layouts;       /* XC_OFF = every value row-major, in memory of its own */
  int64_t trace_steps;   /* steps of sampled runs kept for xc_session_trace(); 0 = none */
  int64_t cache_bytes;   /* files of the persistent cache; 0 = 256 MiB */
  int64_t post_ops;      /* XC_OFF = a step for every operator: none finishes another's results */
  int64_t winograd;      /* XC_OFF = convolutions add up every window on its own */
  int64_t bands;         /* convolutions band by band; XC_ALWAYS = all that can, for tests */
} xc_config;
#define XC_CONFIG_INIT \
  {sizeof(xc_config), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, 0, 0, 0, 0, 0}

/* XC_CONFIG_INIT for languages without macros. `size` is what the caller knows of the struct,
 * sizeof(xc_config): nothing behind it is written, whatever version the library has. NULL and a
 * size without room for struct_size do nothing. Any thread. @since 0.1 @stability stable */
XC_API void xc_config_init(xc_config* config, size_t size);

/* Sets one knob by name from text: ("threads", "4"), ("jit", "sync"). Text values (cache_dir) are
 * kept by pointer: `value` must then outlive the use of `config`.
 * Fails with XC_NOT_FOUND (no such knob; the message lists them), XC_INVALID_ARGUMENT (the message
 * lists legal values) and XC_UNSUPPORTED (the struct of the program's older header has no room for
 * the knob).
 * @since 0.1 @stability stable */
XC_API XC_NODISCARD xc_status xc_config_set(xc_config* config, const char* name, const char* value,
                                            xc_error** out_error);

/* Sets every knob whose XC_* environment variable exists and is not empty. The library never reads
 * these variables by itself. Text values point into the environment. Not while another thread
 * changes the environment. Fails as xc_config_set(), naming the variable. @since 0.1 @stability
 * stable */
XC_API XC_NODISCARD xc_status xc_config_read_environment(xc_config* config, xc_error** out_error);

/* The value of a knob in effect as text, defaults filled in: "auto", "67108864"; of threads, as
 * many as an engine would have. The caller destroys the blob. Fails with XC_NOT_FOUND. @since 0.1
 * @stability stable */
XC_API XC_NODISCARD xc_status xc_config_get(const xc_config* config, const char* name,
                                            xc_blob** out_value, xc_error** out_error);

/* One row of the table of knobs. Static storage. */
typedef struct xc_config_option_info {
  uint32_t struct_size; /* set by the caller */
  uint32_t is_text;     /* 1 = any text, 0 = a number or one of the choices */
  xc_string_view name;
  xc_string_view environment; /* "XC_THREADS" */
  xc_string_view choices;     /* "auto|off|sync|freeze": names of 0, 1, 2, ...; empty = a number */
  xc_string_view doc;
  int64_t fallback; /* what 0 stands for */
  int64_t low, high;
  uint32_t engine_only; /* 1 = no session has its own: see xc_session_options */
  uint32_t reserved;    /* 0 */
} xc_config_option_info;

/* Number of knobs. Any thread. @since 0.1 @stability stable */
XC_API uint32_t xc_config_option_count(void);

/* Describes knob `index`. Any thread. Fails with XC_INVALID_ARGUMENT (index, struct_size).
 * @since 0.1 @stability stable */
XC_API XC_NODISCARD xc_status xc_config_option(uint32_t index, xc_config_option_info* out_info);

/* ---- host callbacks; every one is optional (all zero) ---- */

enum { XC_LOG_ERROR = 1, XC_LOG_WARNING = 2, XC_LOG_INFO = 3, XC_LOG_DEBUG = 4 };

/* Receives log lines. `message` is valid during the call. Without it nothing is logged anywhere. */
typedef struct xc_logger {
  void (*log)(void* user_data, int32_t level, xc_string_view message);
  void* user_data;
  xc_destroy_fn destroy; /* may be NULL */
} xc_logger;

struct xc_event; /* profile.h */
/* Receives everything the adaptive engine decides. `event` is valid during the call. Called from
 * the engine's background thread and from threads inside a run, several at a time; it must return
 * soon, and must neither destroy the session it tells of nor release the last handle of its engine.
 * No lock is held: it may call the session (run, freeze, explain), but a wait for it (wait_idle,
 * warm_up) would wait for the call itself until its time is over. */
typedef struct xc_event_listener {
  void (*receive)(void* user_data, const struct xc_event* event);
  void* user_data;
  xc_destroy_fn destroy; /* may be NULL */
} xc_event_listener;

/* Memory of arenas, outputs and copies of inputs. `allocate` returns NULL when it refuses; the run
 * then fails with XC_OUT_OF_MEMORY. Alignment is a power of two, at most 4096. */
typedef struct xc_allocator {
  void* (*allocate)(void* user_data, size_t bytes, size_t alignment);
  void (*release)(void* user_data, void* memory, size_t bytes);
  void* user_data;
  xc_destroy_fn destroy; /* may be NULL; comes after the last release */
} xc_allocator;

/* One task of a parallel step. */
typedef void (*xc_task_fn)(void* body, int64_t task, int32_t worker);

/* Runs tasks on the host's threads instead of the engine's pool. `run` calls
 * task(body, i, worker) for every i in [0, tasks), in any order and concurrently, and returns when
 * all are done. A worker number in [0, workers) is used by one thread at a time within one run. */
typedef struct xc_task_runner {
  void (*run)(void* user_data, int64_t tasks, xc_task_fn task, void* body);
  void* user_data;
  xc_destroy_fn destroy; /* may be NULL */
  int32_t workers;       /* >= 1 */
  int32_t reserved;      /* 0 */
} xc_task_runner;

typedef struct xc_engine_options {
  uint32_t struct_size;    /* = sizeof(xc_engine_options) */
  uint32_t reserved;       /* 0 */
  const xc_config* config; /* NULL = all defaults; copied */
  xc_logger logger;
  xc_event_listener events;
  xc_allocator allocator;
  xc_task_runner tasks;
  /* Those that models of this engine may use; NULL = none. A reference is kept. */
  xc_op_library* operators;
} xc_engine_options;
#define XC_ENGINE_OPTIONS_INIT \
  {sizeof(xc_engine_options),  \
   0,                          \
   NULL,                       \
   {NULL, NULL, NULL},         \
   {NULL, NULL, NULL},         \
   {NULL, NULL, NULL, NULL},   \
   {NULL, NULL, NULL, 0, 0},   \
   NULL}

/* XC_ENGINE_OPTIONS_INIT for languages without macros; `size` as in xc_config_init().
 * @since 0.1 @stability stable */
XC_API void xc_engine_options_init(xc_engine_options* options, size_t size);

/* ---- the engine ---- */

/* Creates an engine. `options` may be NULL; what it points to is copied. On success the engine owns
 * the callbacks' user data and calls each `destroy` once, when it is gone; on failure it calls
 * none. The caller releases it. Fails with XC_INVALID_ARGUMENT (a value out of range, half an
 * allocator), XC_UNSUPPORTED (an options struct from a newer header with fields this library does
 * not know), XC_OUT_OF_MEMORY.
 * @since 0.1 @stability stable */
XC_API XC_NODISCARD xc_status xc_engine_create(const xc_engine_options* options,
                                               xc_engine** out_engine, xc_error** out_error);

/* Adds a reference. NULL is allowed. Returns `engine`. @since 0.1 @stability stable */
XC_API xc_engine* xc_engine_retain(xc_engine* engine);

/* Drops a reference; the engine goes when no reference, model or session is left. NULL is allowed.
 * @since 0.1 @stability stable */
XC_API void xc_engine_release(xc_engine* engine);

/* Every operator of the standard and of xc: its versions, the element types of its inputs, what can
 * execute it in the order asked, and how it fuses. A table in Markdown, or JSON where json != 0.
 * The caller destroys the blob. Fails with XC_INVALID_ARGUMENT, XC_OUT_OF_MEMORY.
 * @since 0.1 @stability experimental */
XC_API XC_NODISCARD xc_status xc_engine_operators(const xc_engine* engine, int32_t json,
                                                  xc_blob** out_text, xc_error** out_error);

#ifdef __cplusplus
}
#endif
#endif /* XC_ENGINE_H */
