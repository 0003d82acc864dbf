/* profile.h */
#include "models.h"

/* Whether the text of a blob holds a piece. */
static int has(const xc_blob* blob, const char* piece) {
  const char* text = (const char*)xc_blob_data(blob);
  const uint64_t size = xc_blob_size(blob);
  const size_t length = strlen(piece);
  uint64_t i;
  for (i = 0; i + length <= size; ++i)
    if (memcmp(text + i, piece, length) == 0) return 1;
  return 0;
}

int main(void) {
  const int64_t dims[2] = {1, 2};
  const float values[2] = {1, 5};
  xc_error* error = NULL;
  xc_session* session = make_session("sync");
  xc_tensor* x = make_tensor(2, dims, values);
  const xc_tensor* in = x;
  xc_profile* profile = NULL;
  xc_counters counters = XC_COUNTERS_INIT;
  xc_region region = XC_REGION_INIT;
  xc_region_shape shape = XC_REGION_SHAPE_INIT;
  xc_event event = XC_EVENT_INIT;
  xc_blob* json = NULL;
  uint32_t i;
  for (i = 0; i < 5; ++i) {
    xc_tensor* y = NULL;
    CHECK_OK(xc_session_run(session, NULL, &in, 1, &y, 1, &error));
    xc_tensor_release(y);
  }
  CHECK_OK(xc_session_counters(session, &counters, &error));
  CHECK(counters.runs == 5 && counters.signatures == 1 && counters.working_bytes > 0);
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_counters(session, NULL, &error));
  CHECK_OK(xc_session_trace(session, &json, &error));
  CHECK(has(json, "\"traceEvents\":["));
  xc_blob_destroy(json);
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_trace(NULL, &json, &error));
  counters.runs = 0;
  CHECK_OK(xc_session_profile(session, &profile, &error));
  xc_session_destroy(session); /* a snapshot stands alone */
  CHECK_CODE(XC_OK, xc_profile_counters(profile, &counters));
  CHECK(counters.runs == 5 && counters.signatures == 1);
  for (i = 0; i < xc_profile_region_count(profile); ++i) {
    CHECK_CODE(XC_OK, xc_profile_region(profile, i, &region));
    CHECK(region.name.size > 0 && region.state.size > 0 && region.uses > 0);
  }
  for (i = 0; i < xc_profile_region_count(profile); ++i) {
    uint32_t k;
    for (k = 0; k < xc_profile_shape_count(profile, i); ++k) {
      CHECK_CODE(XC_OK, xc_profile_shape(profile, i, k, &shape));
      CHECK(shape.shape.size > 0 && shape.calls >= shape.live_calls);
    }
    CHECK_CODE(XC_INVALID_ARGUMENT, xc_profile_shape(profile, i, k, &shape));
  }
  for (i = 0; i < xc_profile_event_count(profile); ++i) {
    const int64_t before = event.time_ns;
    CHECK_CODE(XC_OK, xc_profile_event(profile, i, &event));
    CHECK(event.kind >= XC_EVENT_CANDIDATE && event.kind <= XC_EVENT_FROZEN);
    CHECK(event.kind_name.size > 0 && event.time_ns >= before);
    CHECK_OK(xc_event_json(&event, &json, &error));
    CHECK(has(json, "\"kind\":") && has(json, "\"time_ns\":"));
    if (event.kind == XC_EVENT_COMPILED) CHECK(has(json, "\"compile_ms\":"));
    xc_blob_destroy(json);
  }
  CHECK_OK(xc_profile_json(profile, &json, &error));
  CHECK(has(json, "\"runs\":5,") && has(json, "\"regions\":[") && has(json, "\"events\":["));
  xc_blob_destroy(json);
  event.kind = 99;
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_event_json(&event, &json, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_event_json(NULL, &json, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_profile_json(NULL, &json, &error));
  printf("%u regions, %u events\n", xc_profile_region_count(profile),
         xc_profile_event_count(profile));
  CHECK_CODE(XC_INVALID_ARGUMENT,
             xc_profile_region(profile, xc_profile_region_count(profile), &region));
  CHECK_CODE(XC_INVALID_ARGUMENT,
             xc_profile_event(profile, xc_profile_event_count(profile), &event));
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_profile_counters(profile, NULL));
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_profile_counters(NULL, &counters));
  CHECK(xc_profile_region_count(NULL) == 0 && xc_profile_event_count(NULL) == 0);
  counters.struct_size = 16; /* an older program sees the part it knows */
  counters.runs = 0;
  counters.signatures = 99;
  CHECK_CODE(XC_OK, xc_profile_counters(profile, &counters));
  CHECK(counters.runs == 5 && counters.signatures == 99 && counters.struct_size == 16);
  counters.struct_size = 0;
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_profile_counters(profile, &counters));
  xc_profile_destroy(profile);
  xc_profile_destroy(NULL);
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_profile(NULL, &profile, &error));
  xc_tensor_release(x);
  return check_result();
}
