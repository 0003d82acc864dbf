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
  /// Of the level that holds so many bytes.
  double bandwidth(double bytes) const {
    return bytes < l2_bytes ? l2_bandwidth : bytes < l3_bytes ? l3_bandwidth : memory_bandwidth;
  }
};

/// Figures of a server core, where nothing was measured: the same on every machine.
constexpr HostSpeed nominal_host_speed() {
  return {.product_rate = 100e9,
          .cell_rate = 75e9,
          .l2_bandwidth = 60e9,
          .l3_bandwidth = 25e9,
          .memory_bandwidth = 11e9,
          .l2_bytes = 768 << 10,
          .l3_bytes = 16 << 20};
}

/// As calibrated; else measured at the first call, in 1 to 3 ms and 4 MB. Ask off a caller's path.
/// Thread-safe; the reference stays valid and what it shows does not change.
const HostSpeed& host_speed();

/// Measured with care: every level of memory, many rounds. Takes 50 to 250 ms of one core and up to
/// 64 MB; for a background thread. Thread-safe.
HostSpeed calibrate_host();
/// From now on host_speed() tells these figures. The first call decides, later ones do nothing.
void set_host_speed(const HostSpeed& speed);
/// What set_host_speed() was given; null before.
const HostSpeed* calibrated_host_speed();

}  // namespace xc
