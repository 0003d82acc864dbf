// The loop IR entry point of xc/graph.h.

#include "capi/handles.h"
#include "loop/schedule_text.h"
#include "loop/text.h"

using namespace xc;
using namespace xc::capi;

xc_status xc_loop_schedule(const char* text, uint64_t size, const char* steps, xc_blob** out_text,
                           xc_error** out_error) {
  return guard(out_error, [&] {
    need(out_text, "out_text");
    need_array(text, size, "text");
    need(steps, "steps");
    loop::Kernel kernel = loop::parse({text ? text : "", size});
    *out_text = make_blob(loop::print(loop::apply_schedule(std::move(kernel), steps)));
  });
}
