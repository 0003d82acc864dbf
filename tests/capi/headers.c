/* Header hygiene: each header stands alone, may be included twice, and its macros make valid
 * values. */
#include <xc/call.h>
#include <xc/engine.h>
#include <xc/error.h>
#include <xc/graph.h>
#include <xc/kernel_abi.h>
#include <xc/model.h>
#include <xc/profile.h>
#include <xc/session.h>
#include <xc/status.h>
#include <xc/tensor.h>
#include <xc/types.h>
#include <xc/version.h>
#include <xc/xc.h>

#include "check.h"

int main(void) {
  xc_config config = XC_CONFIG_INIT, config_by_call;
  xc_engine_options engine = XC_ENGINE_OPTIONS_INIT, engine_by_call;
  xc_session_options session = XC_SESSION_OPTIONS_INIT, session_by_call;
  xc_run_options run = XC_RUN_OPTIONS_INIT, run_by_call;
  xc_port port = XC_PORT_INIT;
  xc_counters counters = XC_COUNTERS_INIT;
  xc_region region = XC_REGION_INIT;
  xc_event event = XC_EVENT_INIT;
  xc_config_init(&config_by_call);
  xc_engine_options_init(&engine_by_call);
  xc_session_options_init(&session_by_call);
  xc_run_options_init(&run_by_call);
  CHECK(memcmp(&config, &config_by_call, sizeof config) == 0);
  CHECK(memcmp(&engine, &engine_by_call, sizeof engine) == 0);
  CHECK(memcmp(&session, &session_by_call, sizeof session) == 0);
  CHECK(memcmp(&run, &run_by_call, sizeof run) == 0);
  CHECK(port.struct_size == sizeof port && counters.struct_size == sizeof counters);
  CHECK(region.struct_size == sizeof region && event.struct_size == sizeof event);
  return check_result();
}
