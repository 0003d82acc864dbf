#pragma once

#include "base/no_cancellation.h"

namespace xc::capi {

/// A host struct {callbacks, user_data, destroy} whose user data is the library's to destroy once
/// armed.
template <class Callbacks>
struct Hook {
  explicit Hook(const Callbacks& given) : callbacks(given) {}
  Hook(const Hook&) = delete;
  Hook& operator=(const Hook&) = delete;
  ~Hook() {
    if (armed && callbacks.destroy) callbacks.destroy(callbacks.user_data);
  }

  /// One of the callbacks with the host's user data. The thread is not cancelled in it: the frames
  /// below are ours.
  template <class Callback, class... Arguments>
  auto call(Callback callback, const Arguments&... arguments) const {
    const NoCancellation whole;
    return callback(callbacks.user_data, arguments...);
  }

  const Callbacks callbacks;
  bool armed = false;
};

}  // namespace xc::capi
