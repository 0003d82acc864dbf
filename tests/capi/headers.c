/* Macros of the headers make valid values, whatever order they are included in; that each stands
 * alone is the check `headers`. */
#include <xc/call.h>
#include <xc/engine.h>
#include <xc/error.h>
#include <xc/graph.h>
#include <xc/kernel_abi.h>
#include <xc/model.h>
#include <xc/operator.h>
#include <xc/profile.h>
#include <xc/session.h>
#include <xc/status.h>
#include <xc/tensor.h>
#include <xc/types.h>
#include <xc/version.h>
#include <xc/xc.h>

#include "check.h"

/* Programs built with an older or a newer header: what they have no room for is not written, what
 * the library does not know is zero. */
static void config_init(void* p, size_t size) {
  xc_config_init((xc_config*)p, size);
}
static void engine_init(void* p, size_t size) {
  xc_engine_options_init((xc_engine_options*)p, size);
}
static void session_init(void* p, size_t size) {
  xc_session_options_init((xc_session_options*)p, size);
}
static void run_init(void* p, size_t size) {
  xc_run_options_init((xc_run_options*)p, size);
}

static void other_sizes(void (*init)(void*, size_t), size_t full) {
  union {
    uint64_t alignment;
    unsigned char bytes[512];
  } room;
  size_t size, i;
  uint32_t said = 0;
  for (size = 0; size <= full + 32; size += 4) {
    memset(room.bytes, 0xA5, sizeof room.bytes);
    init(room.bytes, size);
    for (i = size < 8 ? 0 : size; i < sizeof room.bytes; ++i)
      if (!CHECK(room.bytes[i] == 0xA5)) return;
    if (size < 8) continue;
    memcpy(&said, room.bytes, sizeof said);
    CHECK(said == size);
    for (i = 8; i < size; ++i)
      if (!CHECK(room.bytes[i] == 0)) return; /* every default is zero */
  }
}

int main(void) {
  xc_config config = XC_CONFIG_INIT, config_by_call;
  xc_engine_options engine = XC_ENGINE_OPTIONS_INIT, engine_by_call;
  xc_session_options session = XC_SESSION_OPTIONS_INIT, session_by_call;
  xc_run_options run = XC_RUN_OPTIONS_INIT, run_by_call;
  xc_port port = XC_PORT_INIT;
  xc_counters counters = XC_COUNTERS_INIT;
  xc_region region = XC_REGION_INIT;
  xc_event event = XC_EVENT_INIT;
  xc_config_init(&config_by_call, sizeof config_by_call);
  xc_engine_options_init(&engine_by_call, sizeof engine_by_call);
  xc_session_options_init(&session_by_call, sizeof session_by_call);
  xc_run_options_init(&run_by_call, sizeof run_by_call);
  CHECK(memcmp(&config, &config_by_call, sizeof config) == 0);
  CHECK(memcmp(&engine, &engine_by_call, sizeof engine) == 0);
  CHECK(memcmp(&session, &session_by_call, sizeof session) == 0);
  CHECK(memcmp(&run, &run_by_call, sizeof run) == 0);
  other_sizes(config_init, sizeof config);
  other_sizes(engine_init, sizeof engine);
  other_sizes(session_init, sizeof session);
  other_sizes(run_init, sizeof run);
  CHECK(port.struct_size == sizeof port && counters.struct_size == sizeof counters);
  CHECK(region.struct_size == sizeof region && event.struct_size == sizeof event);
  return check_result();
}
