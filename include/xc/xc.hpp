// xc for C++20: owning types over the C interface, header only; nothing of it is in the library.
//
//   xcrt::Engine engine;
//   xcrt::Session session(xcrt::Model(engine, "digits.onnx"));
//   auto x = xcrt::Tensor::of<float>({1, 784});
//   std::ranges::copy(pixels, x.values<float>().begin());
//   std::vector<xcrt::Tensor> y = session.run(x);
//   use(y[0].values<float>(), y[0].dims());
//
// Every type owns one reference, is movable and not copyable (Tensor, Model and Engine have
// share()), and has handle() for what is not wrapped. Failures are thrown as xcrt::Error.
// Ownership, threads and the meaning of each function: the C header of the same name.
#pragma once

#include <xc/xc.h>

#include <xc/cache.hpp>
#include <xc/engine.hpp>
#include <xc/error.hpp>
#include <xc/graph.hpp>
#include <xc/model.hpp>
#include <xc/operator.hpp>
#include <xc/session.hpp>
#include <xc/tensor.hpp>
