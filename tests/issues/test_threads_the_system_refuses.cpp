// Threads that could not be started ended the process: in oneTBB's noexcept caller, in the
// destructor of threads that a map had begun, elsewhere as a foreign system_error.
#include <atomic>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/common/worker_stream.h"
#include "keel/backends/registry.h"
#include "keel/core/base/log.h"
#include "keel/core/base/parallel_for.h"
#include "keel/data/data.h"
#include "keel/data/pipeline/thread_pool.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

#include "issues/refused_threads.h"
#include "support/error_of.h"
#include "support/temp_folder.h"

namespace keel {
namespace {

using keel_test::contains;
using keel_test::error_of;
using keel_test::RefusedThreads;

// The lines of the log while it lives.
class LoggedText {
 public:
  LoggedText() {
    set_log_sink([this](LogLevel, const std::string& line) { lines_ += line + "\n"; });
  }
  ~LoggedText() { set_log_sink({}); }
  const std::string& lines() const { return lines_; }

 private:
  std::string lines_;
};

std::string idx_header(const std::vector<char>& dims) {
  std::string bytes{0, 0, 8, static_cast<char>(dims.size())};
  for (const char dim : dims) bytes += {0, 0, 0, dim};
  return bytes;
}

// Each chunk once, whoever runs it.
void check_chunks(int n) {
  std::vector<std::atomic<int>> runs(static_cast<size_t>(n));
  parallel_for(n, [&](int i) { ++runs[static_cast<size_t>(i)]; });
  for (const auto& count : runs) CHECK(count == 1);
}

// One epoch of a pipeline with a map on three threads and a prefetch, through a feed into a sunk
// loop; the number of steps that ran.
int64_t train_once() {
  Graph g;
  const Value x = g.input("x", f32, {4, 8});
  const Value w = g.state("w", ones({8, 2}));
  const Value loss = mean(square(matmul(x, w)));
  const Update update = sgd(0.1).minimize(loss);
  Session session(g, device("npu:0"));
  const Dataset items = Dataset::from_tensors({{"x", Tensor::full(f32, {32, 8}, 1)}});
  const auto twice = [](const ItemView& in, const ItemSlot& out) {
    for (size_t i = 0; i < 8; ++i) out.data<float>(0)[i] = 2 * in.data<float>(0)[i];
  };
  const Dataset data = items.map(items.spec(), twice, {.threads = 3}).batch(4).prefetch(2);
  Loop loop =
      session.sink({.update = update, .fetches = {loss}, .source = feed(data, session.spec({x}))});
  return loop.run(8).steps;
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("parallel_for runs every chunk whichever of its threads the system refuses") {
  // Each team is made once for its size, so every call needs a size of its own.
  int threads = 20;
  for (const bool all_after : {false, true}) {
    for (int refused = 1; refused <= 6; ++refused) {
      const keel::ComputeThreads use(threads++);
      const LoggedText warnings;
      const RefusedThreads system(refused, all_after);
      for (int round = 0; round < 20; ++round) check_chunks(64);
      if (system.calls() >= refused)
        CHECK(contains(warnings.lines(), "computing goes on with fewer"));
    }
  }
}

TEST_CASE("a pool works with the threads that there are") {
  for (int refused = 1; refused <= 4; ++refused) {
    const LoggedText warnings;
    const RefusedThreads system(refused, true);
    ThreadPool pool(4);
    std::atomic<int64_t> sum{0};
    pool.run(100, [&](uint32_t part) { sum += part; });
    CHECK(sum == 4950);
    const std::string said = "map goes on with " + std::to_string(refused) + " of 4 threads";
    CHECK(contains(warnings.lines(), said) == (refused < 4));
  }
}

TEST_CASE("a device thread that the system refuses is an error and the next one works") {
  for (const char* name : {"cpu:0", "npu:0", "ref:0"}) {
    Graph g;
    const Value x = g.input("x", f32, {2});
    const Value y = x + 1.0f;
    const auto run = [&] {
      Session session(g, device(name));
      return session.run({y}, {{x, Tensor::full(f32, {2}, 1)}})[0].at(0);
    };
    {
      const RefusedThreads system(1, true);
      CHECK(contains(error_of(run), "thread: the device's thread cannot be started"));
    }
    CHECK(run() == 2);
  }
}

TEST_CASE("the files of a data set are read one after the other without a second thread") {
  const keel_test::TempFolder folder;
  for (const std::string part : {"train", "t10k"}) {
    folder.write(part + "-images-idx3-ubyte", idx_header({3, 2, 2}) + std::string(12, 'x'));
    folder.write(part + "-labels-idx1-ubyte", idx_header({3}) + std::string(3, 1));
  }
  const LoggedText warnings;
  const RefusedThreads system(1, true);
  CHECK(load_mnist(folder.path()).test.count() == 3);
  CHECK(contains(warnings.lines(), "read one after the other"));
}

TEST_CASE("a training with map prefetch feed and loop survives each thread that is refused") {
  const keel::ComputeThreads use(3);
  int completed = 0;
  for (const bool all_after : {false, true}) {
    for (int refused = 1; refused <= 12; ++refused) {
      const LoggedText warnings;
      const RefusedThreads system(refused, all_after);
      int64_t steps = 0;
      const std::string error = error_of([&] { steps = train_once(); });
      CAPTURE(refused);
      CHECK((steps == 8 || contains(error, "cannot be started")));
      completed += steps == 8 ? 1 : 0;
    }
  }
  CHECK(completed > 0);
  CHECK(train_once() == 8);
}

TEST_SUITE_END();

}  // namespace keel
