// Real models through the pipeline: what they compute stays, measured on reference kernels.
#include <doctest/doctest.h>

#include "base/error.h"
#include "formats/format.h"
#include "ir/verify.h"
#include "passes/pipeline.h"
#include "support/evaluate.h"
#include "support/paths.h"

using namespace xc;

TEST_CASE("passes/models: the pipeline keeps what real models compute") {
  struct Case {
    const char* name;
    size_t most_nodes;  ///< after the pipeline
    double tolerance;
  };
  for (const Case& c : {
           Case{"mnist_cnn", 11, 1e-4},
           Case{"kws_qdq", 60, 1e-4},
           Case{"tinybert", 60, 1e-4},
           Case{"ppocr_rec_en", 145, -1},  // values are compared with onnxruntime elsewhere
           Case{"magika", 65, -1},         // min(1000000000, n) is not n: a shape with n stays
           Case{"fastestdet", 236, -1},
           Case{"silero_vad", 2, -1},
       }) {
    const std::string relative = "models/" + std::string(c.name) + "/model.onnx";
    if (!test::have_shared(relative)) continue;
    CAPTURE(c.name);
    Graph graph = load_model(test::shared_dir() + "/" + relative);
    const Graph before = graph.clone();
    PassOptions options;
    options.verify_each = true;
    const PassReport report = optimise(graph, options);
    verify(graph);
    CHECK(report.converged);
    CHECK(graph.order().size() <= c.most_nodes);
    if (c.tolerance < 0) continue;
    const std::vector<Tensor> inputs = test::random_inputs(before, 4, 3);
    for (const Tensor& input : inputs)  // ids: the smallest table has two rows
      for (int64_t i = 0; is_integer(input.dtype()) && i < input.count(); ++i)
        store_int64(input.data(), input.dtype(), i, load_int64(input.data(), input.dtype(), i) % 2);
    const std::string difference = test::difference(test::evaluate(before, inputs),
                                                    test::evaluate(graph, inputs), c.tolerance);
    CHECK_MESSAGE(difference.empty(), difference);
  }
}
