// Weights that the npu keeps packed for the cube: the copies themselves, and sessions whose bits
// must be those of sessions that do not fuse, and so keep none.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <keel/keel.h>

#include "keel/backends/common/cube/cube_kernels.h"
#include "keel/backends/common/cube/kernel_choice.h"
#include "keel/backends/common/products/prepacked_weight.h"
#include "keel/core/base/parallel_for.h"

#include "fused_step_for_tests.h"
#include "ops_for_tests.h"
#include "support/fusion.h"
#include "support/temp_folder.h"
#include "vector_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using testing::contains;
using testing::noise;
using vector_test::on_every_isa;

constexpr int64_t kInputs = 300, kHidden = 77, kDeep = 70;

// Two hidden layers, so that a weight is read as it is stored and transposed. With at most 16
// classes the last product is a narrow one.
struct Net {
  explicit Net(const Optimizer& optimizer, int64_t count = 21) : classes(count) {
    const Value first = tanh(matmul(x, w1));
    const Value second = relu(matmul(first, w2));
    logits = matmul(second, w3);
    loss = mean(softmax_cross_entropy(logits, label));
    train = optimizer.minimize(loss);
  }
  Feeds feeds(int64_t batch, uint32_t step) const {
    Tensor labels(i32, {batch});
    for (int64_t i = 0; i < batch; ++i) {
      labels.data<int32_t>()[static_cast<size_t>(i)] =
          static_cast<int32_t>((i * 5 + step) % classes);
    }
    return {{x, noise({batch, kInputs}, step)}, {label, labels}};
  }

  int64_t classes;
  Graph g;
  Value x = g.input("x", f32, {-1, kInputs});
  Value label = g.input("label", i32, {-1});
  Value w1 = g.state("w1", glorot_uniform({kInputs, kHidden}));
  Value w2 = g.state("w2", glorot_uniform({kHidden, kDeep}));
  Value w3 = g.state("w3", glorot_uniform({kDeep, classes}));
  Value logits, loss;
  Update train;
};

using Script = void (*)(Net&, Session&);

struct Variant {
  int64_t classes;
  const char* precision;
};

// The states after a script, with weights that are kept packed or without.

std::string states_after(const Variant& variant, const Optimizer& optimizer, Script script,
                         bool packed) {
  Net net(optimizer, variant.classes);
  Session session(net.g, device("npu:0"),
                  {.disabled_passes = keel_test::fusion(packed), .precision = variant.precision});
  const std::string tasks = session.describe(net.train, {net.loss}, net.feeds(50, 0));
  CHECK(contains(tasks, "packed once for the cube") == packed);
  script(net, session);
  return session.state_sha256();
}

void check_script(const Optimizer& optimizer, Script script) {
  for (const Variant& v : {Variant{21, "mixed_bf16"}, {10, "mixed_bf16"}, {10, "fp32"}}) {
    CAPTURE(v.classes);
    CAPTURE(v.precision);
    CHECK(states_after(v, optimizer, script, true) == states_after(v, optimizer, script, false));
  }
}

void steps(Net& net, Session& session, int64_t batch, uint32_t first, uint32_t count) {
  for (uint32_t step = first; step < first + count; ++step) {
    session.run(net.train, {net.loss}, net.feeds(batch, step));
  }
}

void three_steps(Net& net, Session& session) { steps(net, session, 50, 0, 3); }

}  // namespace

TEST_CASE("prepacked weight: a packed right operand gives the bits of one packed anew") {
  constexpr size_t kShapes[][3] = {{40, 77, 300}, {33, 17, 1}, {64, 130, 1100}, {17, 1100, 40},
                                   {50, 10, 784}, {3, 16, 33}, {40, 1, 300},    {20, 5, 8192}};
  on_every_isa([&] {
    for (const auto& sizes : kShapes) {
      const size_t m = sizes[0], n = sizes[1], k = sizes[2];
      for (int variant = 0; variant < 4; ++variant) {
        CubeProblem problem{.m = m, .n = n, .k = k};
        problem.transpose_b = (variant & 1) != 0;
        problem.round_to = (variant & 2) != 0 ? bf16 : f32;
        CAPTURE(n);
        CAPTURE(k);
        CAPTURE(variant);
        REQUIRE(cube_takes_packed(problem));
        const auto rows = static_cast<int64_t>(problem.transpose_b ? n : k);
        const auto columns = static_cast<int64_t>(problem.transpose_b ? k : n);
        const Tensor a = noise({static_cast<int64_t>(m), static_cast<int64_t>(k)}, 1);
        const Tensor b = noise({rows, columns}, 2);
        const auto multiply = [&](const void* right, bool packed) {
          CubeProblem p = problem;
          p.packed_b = packed;
          const CubePlan plan = plan_cube(p);
          std::vector<float> c(m * n);
          CubeArgs args{.a = a.raw(), .a_stride = k, .b = right};
          args.b_stride = static_cast<size_t>(columns);
          args.c = c.data();
          args.c_stride = n;
          auto scratch = allocate_host_buffer(cube_scratch_bytes(plan, m, n));
          cube_block(plan, args, {0, m, 0, n}, scratch->address());
          return c;
        };
        const Type type{f32, {rows, columns}};
        const WeightUse use{problem.transpose_b, problem.round_to};
        const PrepackedWeight copies(type, std::vector{use});
        CHECK(PrepackedWeight(type, copies.layout()).bytes() == copies.bytes());
        // Whole; in shares; in pieces as a product hands them over. Nothing is written behind it.
        std::vector<std::shared_ptr<Buffer>> buffers;
        for (int way = 0; way < 3; ++way) {
          buffers.push_back(allocate_host_buffer(copies.bytes() + 64));
          auto* buffer = static_cast<char*>(buffers.back()->address());
          std::memset(buffer, 0x5a, copies.bytes() + 64);
          std::memcpy(buffer, b.raw(), b.num_bytes());
          copies.fill_gaps(buffer);
          if (way == 0) copies.pack(buffer);
          for (int64_t share = 0; way == 1 && share < 3; ++share) {
            copies.pack_share(0, buffer, 2 - share, 3);
          }
          const CubeStep step{96, 96};
          for (int64_t i = 0; way == 2 && i < rows; i += 96) {
            for (int64_t j = 0; j < columns; j += 96) {
              copies.pack_piece(
                  0, buffer,
                  {i, std::min<int64_t>(96, rows - i), j, std::min<int64_t>(96, columns - j)});
            }
          }
          if (way == 2 && !copies.takes_pieces(0, step)) buffers.pop_back();
          for (size_t i = 0; i < 64; ++i) REQUIRE(buffer[copies.bytes() + i] == 0x5a);
        }
        const auto expected = multiply(b.raw(), false);
        for (const auto& buffer : buffers) {
          const auto* at = static_cast<const char*>(buffer->address());
          CHECK(std::memcmp(at, buffers[0]->address(), copies.bytes()) == 0);
          CHECK(vector_test::same_bits(expected, multiply(at + copies.offset(use), true)));
        }
      }
    }
  });
}

TEST_CASE("prepacked weight: a layout's word says which copies and for which instruction set") {
  const Type type{f32, {70, 40}};
  const PrepackedWeight copies(type, std::vector<WeightUse>{{true, bf16}, {false, bf16}});
  const std::string isa = host_isa_name();
  CHECK(copies.layout() == "plain+kn:bf16@" + isa + "+nk:bf16@" + isa);
  CHECK(copies.bytes() >= 70 * 40 * 4 + 2 * 70 * 40 * 2);
  for (const std::string& word :
       {std::string("backwards"), std::string("plain+kn:bf16@abacus"), "plain+kn:f16@" + isa,
        "plain+kn:bf16@" + isa + "_more", "plain+nk:bf16@" + isa + "+kn:bf16@" + isa,
        "plain+kn:bf16@" + isa + "+kn:bf16@" + isa, "plain+kn:bf16@" + isa + "+",
        "+kn:bf16@" + isa}) {
    CAPTURE(word);
    CHECK_THROWS_AS(PrepackedWeight(type, Layout(word)), Error);
  }
  const Tensor value = noise({70, 40}, 1);
  std::vector<char> buffer(copies.bytes(), 0x5a);
  const Backend& npu = device("npu").backend();
  CHECK_THROWS_AS(npu.convert_layout(type, "", value.raw(), "backwards", buffer.data()), Error);
  CHECK(std::count(buffer.begin(), buffer.end(), 0x5a) == static_cast<int64_t>(buffer.size()));
  npu.convert_layout(type, "", value.raw(), copies.layout(), buffer.data());
  CHECK(std::memcmp(buffer.data(), value.raw(), value.num_bytes()) == 0);
}

TEST_CASE("prepacked weight: trainings have the bits of those without on every instruction set") {
  std::string tasks;
  on_every_isa([&] {
    check_script(sgd(0.1), three_steps);
    check_script(sgd(0.1, {.momentum = 0.9}), three_steps);
    // What the model predicts knows nothing of the host.
    Net net(sgd(0.1));
    Session session(net.g, device("npu:0"), {.precision = "mixed_bf16"});
    const std::string here = session.describe(net.train, {net.loss}, net.feeds(50, 0));
    if (!tasks.empty()) CHECK(here == tasks);
    tasks = here;
  });
  for (const int threads : {1, 2, 5}) {
    const ComputeThreads some(threads);
    check_script(sgd(0.1, {.momentum = 0.9}), three_steps);
  }
}

TEST_CASE("prepacked weight: what is kept and what is not is told") {
  Net net(sgd(0.1));
  Session session(net.g, device("npu:0"), {.precision = "mixed_bf16"});
  const std::string tasks = session.describe(net.train, {net.loss}, net.feeds(50, 0));
  CHECK(contains(tasks, "w1 packed once for the cube: renewed as [k, n] in bf16"));
  CHECK(contains(tasks, "w2 packed once for the cube: renewed as [k, n] in bf16 and [n, k] in"));
  CHECK(contains(tasks, "w2 packed once for the cube: read in bf16"));
  // A program that only reads takes the weights as they are.
  CHECK_FALSE(contains(session.describe({}, {net.loss}, net.feeds(50, 0)), " packed"));
  // Nor is anything kept for wide products of f32, or of few rows.
  CHECK_FALSE(contains(session.describe(net.train, {net.loss}, net.feeds(8, 0)), " packed"));
  Session full(net.g, device("npu:0"));
  CHECK_FALSE(contains(full.describe(net.train, {net.loss}, net.feeds(50, 0)), " packed"));
  // For narrow ones it is.
  Net narrow(sgd(0.1), 10);
  Session few(narrow.g, device("npu:0"));
  const std::string in_f32 = few.describe(narrow.train, {narrow.loss}, narrow.feeds(50, 0));
  CHECK(contains(in_f32, "w3 packed once for the cube: read in f32"));
  CHECK(contains(in_f32, "w3 packed once for the cube: renewed as [k, n] in f32"));
  CHECK_FALSE(contains(in_f32, "w2 packed"));
}

TEST_CASE("prepacked weight: writes between steps reach the copies") {
  check_script(sgd(0.1), [](Net& net, Session& session) {
    steps(net, session, 50, 0, 2);
    session.write(net.w2, noise({kHidden, kDeep}, 9));
    CHECK(bit_equal(session.read(net.w2), noise({kHidden, kDeep}, 9)));
    steps(net, session, 50, 2, 2);
  });
}

TEST_CASE("prepacked weight: evaluations and checkpoints between steps see the value") {
  check_script(sgd(0.1, {.momentum = 0.9}), [](Net& net, Session& session) {
    const keel_test::TempFolder folder;
    steps(net, session, 50, 0, 2);
    session.save(folder.file("two"));
    const Tensor logits = session.run({net.logits}, {net.feeds(60, 5)[0]})[0];
    steps(net, session, 50, 2, 1);
    CHECK_FALSE(bit_equal(logits, session.run({net.logits}, {net.feeds(60, 5)[0]})[0]));
    session.load(folder.file("two"));
    CHECK(bit_equal(logits, session.run({net.logits}, {net.feeds(60, 5)[0]})[0]));
    steps(net, session, 50, 2, 2);
  });
}

TEST_CASE("prepacked weight: programs that update a weight otherwise leave no stale copies") {
  check_script(sgd(0.1), [](Net& net, Session& session) {
    // By an element-wise op in place, by a step of few rows, as a copy, and from its own product.
    const Update halve{{{net.w2, net.w2 * 0.5f}}};
    const Update swap{{{net.w1, net.w1 * 2.0f}, {net.w2, net.w2 - 1.0f}}};
    for (uint32_t round = 0; round < 2; ++round) {
      steps(net, session, 50, 10 * round, 2);
      session.run(halve, {});
      steps(net, session, 50, 10 * round + 2, 1);
      steps(net, session, 8, 10 * round + 3, 1);
      session.run(swap, {net.w2});
      steps(net, session, 64, 10 * round + 4, 2);
    }
  });
}

TEST_CASE("prepacked weight: a weight whose old value is fetched has them in both buffers") {
  check_script(sgd(0.1), [](Net& net, Session& session) {
    for (uint32_t step = 0; step < 4; ++step) {
      const Tensor before = session.read(net.w2);
      const auto results = session.run(net.train, {net.loss, net.w2}, net.feeds(50, step));
      CHECK(bit_equal(results[1], before));
      if (step % 2 == 1) session.run(net.train, {net.loss}, net.feeds(50, step + 100));
    }
  });
}

TEST_CASE("prepacked weight: an update that reads its weight as operand and in the epilogue") {
  struct Right {
    int64_t columns;
    bool transposed;
    const char* precision;
  };
  const Right rights[] = {{96, false, "mixed_bf16"},
                          {96, true, "mixed_bf16"},
                          {10, false, "mixed_bf16"},
                          {10, false, "fp32"}};
  for (const auto& [columns, transposed, precision] : rights) {
    std::vector<std::string> states;
    for (const bool fuse : {true, false}) {
      Graph g;
      const Value x = g.input("x", f32, {96, 96});
      const Value w = g.state("w", normal({96, columns}, 0, 1));
      const Value product = matmul(x, w, {.transpose_b = transposed});
      const Update update{{{w, w - product * 0.25f}}};
      Session session(g, device("npu:0"),
                      {.disabled_passes = keel_test::fusion(fuse), .precision = precision});
      const Feeds feeds{{x, noise({96, 96}, 3)}};
      CHECK(contains(session.describe(update, {}, feeds), "packed once") == fuse);
      for (int i = 0; i < 3; ++i) session.run(update, {}, feeds);
      states.push_back(session.state_sha256());
    }
    CHECK(states[0] == states[1]);
  }
}

TEST_CASE("prepacked weight: an update by rows that are split within a panel of the copies") {
  // Rows of the update are 104 for each of two threads, where panels of some instruction sets have
  // 16 columns of the transposed copy.
  const ComputeThreads two(2);
  on_every_isa([&] {
    const auto train = [](bool fuse) {
      Graph g;
      const Value b = g.input("b", f32, {208, 208}), c = g.input("c", f32, {208, 48});
      const Value x = g.input("x", f32, {64, 48});
      const Value w = g.state("w", normal({208, 48}, 0, 1));
      const Value y = matmul(cast(x, bf16), cast(w, bf16), {.transpose_b = true});
      const Update update{{{w, w * 0.5f + matmul(b, c) * 0.01f}}};
      Session session(g, device("npu:0"), {.disabled_passes = keel_test::fusion(fuse)});
      const Feeds feeds{
          {b, noise({208, 208}, 1)}, {c, noise({208, 48}, 2)}, {x, noise({64, 48}, 3)}};
      std::vector<Tensor> results;
      for (int step = 0; step < 3; ++step)
        results.push_back(session.run(update, {cast(y, f32)}, feeds)[0]);
      return results;
    };
    const std::vector<Tensor> together = train(true), apart = train(false);
    for (size_t step = 0; step < together.size(); ++step)
      CHECK(bit_equal(together[step], apart[step]));
  });
}

TEST_CASE("prepacked weight: gradients that are clipped first leave the weights plain") {
  std::vector<std::string> states;
  for (const bool fuse : {true, false}) {
    Net net(sgd(0.1));
    const Values weights{net.w1, net.w2, net.w3};
    const Update update =
        adam(0.01).apply(weights, clip_by_global_norm(gradients(net.loss, weights), 0.1));
    Session session(net.g, device("npu:0"),
                    {.disabled_passes = keel_test::fusion(fuse), .precision = "mixed_bf16"});
    CHECK_FALSE(contains(session.describe(update, {}, net.feeds(50, 0)), "packed once"));
    steps(net, session, 50, 0, 2);
    for (uint32_t step = 0; step < 3; ++step) session.run(update, {}, net.feeds(50, step));
    steps(net, session, 50, 2, 2);
    states.push_back(session.state_sha256());
  }
  CHECK(states[0] == states[1]);
}

TEST_CASE("prepacked weight: a step that failed before it wrote leaves the weights as they were") {
  check_script(sgd(0.1), [](Net& net, Session& session) {
    const Value number = net.g.input("number", i32, {1});
    const Value row = gather(net.w3 * 1.0f, number);
    const auto feeds = [&](uint32_t step, int32_t n) {
      Feeds all = net.feeds(50, step);
      all.emplace_back(number, Tensor::of<int32_t>({1}, {n}));
      return all;
    };
    session.run(net.train, {row}, feeds(0, 2));
    const Tensor before[] = {session.read(net.w1), session.read(net.w2), session.read(net.w3)};
    CHECK_THROWS_AS(session.run(net.train, {row}, feeds(1, -9)), Error);
    CHECK(bit_equal(session.read(net.w2), before[1]));
    session.write(net.w1, before[0]);
    session.write(net.w2, before[1]);
    session.write(net.w3, before[2]);
    session.write(net.g.step(), Tensor::scalar<int64_t>(1));
    steps(net, session, 50, 1, 2);
  });
}

TEST_SUITE_END();
