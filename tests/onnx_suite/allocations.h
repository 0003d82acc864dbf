#pragma once
// Counts what threads ask operator new for, which it replaces in this program; where a sanitizer
// owns that, nothing is counted.

namespace xc::suite {

/// Requests of the calling thread so far.
long allocations();

}  // namespace xc::suite
