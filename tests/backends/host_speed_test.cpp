#include "backends/host_speed.h"

#include <doctest/doctest.h>

#include "base/clock.h"

TEST_CASE("backends/host_speed: measured once, quickly, and in the order of the memory levels") {
  const int64_t start = xc::steady_ns();
  const xc::HostSpeed& host = xc::host_speed();
  const double ms = static_cast<double>(xc::steady_ns() - start) * 1e-6;
  CHECK(&xc::host_speed() == &host);
  CHECK(host.product_rate > host.cell_rate);
  CHECK(host.cell_rate > 1e8);
  CHECK(host.l2_bandwidth >= host.l3_bandwidth);
  CHECK(host.l3_bandwidth > host.memory_bandwidth);
  CHECK(host.memory_bandwidth > 1e8);
  CHECK(host.l3_bytes >= host.l2_bytes);
  MESSAGE("in ", ms, " ms: products ", host.product_rate * 1e-9, " GFLOP/s, bandwidths ",
          host.l2_bandwidth * 1e-9, " / ", host.l3_bandwidth * 1e-9, " / ",
          host.memory_bandwidth * 1e-9, " GB/s");
}

TEST_CASE(
    "backends/host_speed: calibrated figures are in order, and take the place of the quick ones") {
  const xc::HostSpeed host = xc::calibrate_host();
  CHECK(host.product_rate > host.cell_rate);
  CHECK(host.cell_rate > 1e8);
  CHECK(host.l2_bandwidth >= host.l3_bandwidth);
  CHECK(host.l3_bandwidth >= host.memory_bandwidth);
  CHECK(host.memory_bandwidth > 1e8);
  CHECK(xc::calibrated_host_speed() == nullptr);
  xc::set_host_speed(host);
  CHECK(&xc::host_speed() == xc::calibrated_host_speed());
  CHECK(xc::host_speed().l3_bandwidth == host.l3_bandwidth);
  xc::HostSpeed other = host;
  other.l3_bandwidth = 1;
  xc::set_host_speed(other);  // the first decides
  CHECK(xc::host_speed().l3_bandwidth == host.l3_bandwidth);
}
