#pragma once
// Why a program runs as it does: per step the kernel, the kernels asked before it and their
// reasons, measured times, fused regions and their state.

#include <string>
#include <vector>

#include "profile/summary.h"
#include "runtime/program.h"

namespace xc {

/// Text for people, or JSON with keys: model, plan {serial, steps[{name, op, kernel, nodes, region,
/// time_us, inputs, outputs, refused[{kernel, reason}]}]}, arena_bytes, regions[], totals{},
/// bodies[]. `signature`: dims per input (bound and shown with sizes); empty = the most recent one,
/// or symbolic.
std::string explain_program(Program& program, const std::vector<Dims>& signature,
                            const ProfileSummary& summary, bool json);

}  // namespace xc
