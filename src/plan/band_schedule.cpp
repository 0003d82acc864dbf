#include "plan/band_schedule.h"

#include <algorithm>

#include "base/checked.h"

namespace xc {

std::vector<int64_t> rows_in_band(std::span<const WindowAxis> axes, int64_t height) {
  std::vector<int64_t> out(axes.size() + 1, height);
  for (size_t i = axes.size(); i-- > 0;)
    out[i] = std::min(axes[i].input, axes[i].extent(out[i + 1]));
  return out;
}

BandSchedule schedule_bands(std::span<const WindowAxis> axes, int64_t chunks, int64_t height) {
  const size_t last = axes.size() - 1;
  const int64_t all = axes[last].output;
  chunks = std::min(chunks, all);
  BandSchedule out;
  out.rows.resize(axes.size());
  out.room.assign(last, 0);
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    out.chunks.push_back(out.calls.size());
    const RowRange wanted{all * chunk / chunks, all * (chunk + 1) / chunks};
    const int64_t step = ceil_div(wanted.size(), ceil_div(wanted.size(), height));
    // Of each step but the last: the first row in the memory behind it, and the first one that is
    // not computed yet. A chunk finds nothing there.
    std::vector<int64_t> first(last, 0), done(last, 0);
    for (int64_t row = wanted.begin; row < wanted.end; row += step) {
      std::vector<RowRange> computed(axes.size()), read(axes.size());
      computed[last] = {row, std::min(row + step, wanted.end)};
      for (size_t i = last; i-- > 0;) {
        // A step that computes nothing reads nothing.
        if (computed[i + 1].size() <= 0) continue;
        read[i] = rows_reached(axes[i + 1], computed[i + 1]);
        computed[i] = {std::max(done[i], read[i].begin), std::max(done[i], read[i].end)};
      }
      for (uint32_t i = 0; i <= last; ++i) {
        if (computed[i].size() <= 0) continue;
        BandCall call;
        call.step = i;
        call.part = static_cast<int64_t>(out.rows[i].size());
        if (i < last) {
          call.first_row = read[i].begin;
          call.kept_rows = std::max<int64_t>(done[i] - read[i].begin, 0);
          if (call.kept_rows > 0) call.kept_at = read[i].begin - first[i];
          first[i] = read[i].begin;
          done[i] = computed[i].end;
          out.room[i] = std::max(out.room[i], done[i] - first[i]);
        }
        out.rows[i].push_back(computed[i]);
        out.calls.push_back(call);
      }
    }
  }
  out.chunks.push_back(out.calls.size());
  return out;
}

}  // namespace xc
