// The classes behind xc.Engine, xc.Session and xc.Call.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <xc/xc.hpp>

#include "arrays.h"
#include "operators.h"

namespace xc_python {

/// xc.Port.
struct Port {
  std::string name, type;
  xc_dtype dtype = XC_DTYPE_UNDEFINED;
  int32_t kind = XC_PORT_TENSOR;
  nb::object key;    ///< the name, interned: dict look-ups compare pointers first
  nb::object shape;  ///< tuple of int or str, or None

  /// All else follows from these.
  bool operator==(const Port& other) const { return name == other.name && type == other.type; }
};

class Session;

/// xc.Call: keeps its session and the bound arrays.
class Call {
 public:
  /// `operators`: those of the session, or nothing.
  Call(xcrt::Call call, std::vector<nb::object> held, nb::list outputs, nb::object operators)
      : operators_(std::move(operators)),
        held_(std::move(held)),
        outputs_(std::move(outputs)),
        call_(std::move(call)) {}
  /// May be the last to hold the session: waits for background work without the GIL.
  ~Call();
  Call(Call&&) = delete;
  nb::list run();
  /// A list of the caller's own.
  nb::list outputs() const;

  int traverse(visitproc visit, void* arg) const;
  void clear() { operators_.reset(); }

 private:
  nb::object operators_;
  std::vector<nb::object> held_;
  nb::list outputs_;
  xcrt::Call call_;  // goes first
};

class Engine {
 public:
  Engine(nb::handle threads, nb::handle jit, const Operators* operators, const nb::kwargs& options);
  /// May be the last to hold the engine: waits for its threads without the GIL.
  ~Engine();
  Engine(Engine&&) = delete;
  xcrt::Engine share() const { return engine_->share(); }
  const nb::object& operators() const { return operators_; }

  int traverse(visitproc visit, void* arg) const;
  void clear() { operators_.reset(); }

 private:
  nb::object operators_;  ///< the xc.Operators, or nothing
  std::optional<xcrt::Engine> engine_;
};

class Session {
 public:
  /// `engine`: null for one of its own, with these options.
  Session(nb::handle model, nb::handle threads, nb::handle jit, const Operators* operators,
          const Engine* engine, const nb::kwargs& options);
  /// Waits for background work without the GIL.
  ~Session();
  Session(Session&&) = delete;

  nb::object run(nb::handle inputs, nb::handle timeout, nb::handle outputs);
  std::unique_ptr<Call> prepare(nb::handle inputs, nb::handle outputs);
  nb::str explain(nb::handle shapes, bool json);
  nb::dict profile();
  nb::str trace();
  void freeze();
  bool wait_idle(nb::handle timeout);
  bool warm_up(nb::handle shapes, nb::handle timeout);
  nb::list inputs() const;
  nb::list outputs() const;

  int traverse(visitproc visit, void* arg) const;
  void clear() { operators_.reset(); }

 private:
  struct Written;
  void read(nb::handle given, Inputs& inputs, Inputs::Use use) const;
  std::vector<std::vector<int64_t>> dims_of(nb::handle shapes, std::vector<xc_shape>& views) const;

  nb::object operators_;  ///< the xc.Operators, or nothing
  std::optional<xcrt::Model> model_;
  std::optional<xcrt::Session> session_;
  std::vector<Port> inputs_, outputs_;
};

}  // namespace xc_python
