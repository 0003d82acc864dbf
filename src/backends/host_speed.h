#pragma once
// How fast a core of this host is: what predictions of times stand on.

namespace xc {

struct HostSpeed {
  double product_rate = 0;  ///< f32 flops per second in matrix products
  double cell_rate = 0;     ///< operations per second in fused elementwise and row loops
  // Bandwidth of one core in bytes per second, read and written together, by the level that holds
  // the data; and the bytes up to which it does.
  double l2_bandwidth = 0, l3_bandwidth = 0, memory_bandwidth = 0;
  double l2_bytes = 0, l3_bytes = 0;
};

/// Measured at the first call, in 1 to 3 ms and 4 MB; ask off a caller's path. Thread-safe.
const HostSpeed& host_speed();

}  // namespace xc
