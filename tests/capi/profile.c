/* profile.h */
#include "models.h"

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
  xc_event event = XC_EVENT_INIT;
  uint32_t i;
  for (i = 0; i < 5; ++i) {
    xc_tensor* y = NULL;
    CHECK_OK(xc_session_run(session, NULL, &in, 1, &y, 1, &error));
    xc_tensor_release(y);
  }
  CHECK_OK(xc_session_profile(session, &profile, &error));
  xc_session_destroy(session); /* a snapshot stands alone */
  CHECK_CODE(XC_OK, xc_profile_counters(profile, &counters));
  CHECK(counters.runs == 5 && counters.signatures == 1);
  for (i = 0; i < xc_profile_region_count(profile); ++i) {
    CHECK_CODE(XC_OK, xc_profile_region(profile, i, &region));
    CHECK(region.name.size > 0 && region.state.size > 0 && region.uses > 0);
  }
  for (i = 0; i < xc_profile_event_count(profile); ++i) {
    CHECK_CODE(XC_OK, xc_profile_event(profile, i, &event));
    CHECK(event.kind >= XC_EVENT_CANDIDATE && event.kind_name.size > 0);
  }
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
