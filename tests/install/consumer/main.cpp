// A project of its own that knows Keel only from its installation.
#include <cstdio>
#include <string>

#include <keel/keel.h>

namespace {

// What the library made must be readable here, and the other way round.
bool attributes_cross_the_library() {
  keel::Graph g;
  const keel::Value a = g.input("a", keel::f32, {2, 3});
  const keel::Value b = g.input("b", keel::f32, {4, 3});
  const keel::Value c = matmul(a, b, {.transpose_b = true});
  const keel::MatmulAttributes options = c.node().as<keel::MatmulAttributes>();
  const keel::Node& again =
      g.add("matmul", {a, b}, keel::Attributes::of(options), keel::CallSite::here());
  return options.transpose_b && again.attributes() == c.node().attributes();
}

// Says whether `call` throws an Error of Keel that says `part`.
template <class Call>
bool refused(Call call, const std::string& part) {
  try {
    call();
  } catch (const keel::Error& error) {
    return std::string(error.what()).find(part) != std::string::npos;
  }
  return false;
}

// Loads a backend from `path`, runs a product on it, and catches what it throws.
bool plugin_reads_attributes(const char* path) {
  keel::Graph g;
  const keel::Value a = g.state("a", keel::ones({2, 3}));
  const keel::Value same = matmul(a, transpose(a));
  const keel::Value transposed = matmul(a, a, {.transpose_b = true});
  keel::Session session(g, keel::device(keel::load_backend_plugin(path)));
  if (session.run({same})[0].at(0) != 3) return false;
  if (!refused([&] { session.run({transposed}); }, "the second operand is transposed"))
    return false;
  const keel::Value large = g.state("large", keel::zeros({1 << 20}));
  return refused([&] { session.read(large); }, "does not fit into 1 MiB");
}

}  // namespace

int main(int argc, char** argv) {
  if (!attributes_cross_the_library()) return 2;
  if (argc > 1 && !plugin_reads_attributes(argv[1])) return 3;
  keel::Graph g;
  auto x = g.input("x", keel::f32, {-1, 2});
  auto w = g.state("w", keel::ones({2, 1}));
  auto y = mean(matmul(x, w)[{keel::_, 0}]);
  auto train = keel::sgd(0.5).minimize(y);

  const auto data = keel::Tensor::of<float>({2, 2}, {0.0f, 1.0f, 2.0f, 3.0f});
  for (const std::string name : {"cpu", "npu", "ref"}) {
    keel::Session session(g, keel::device(name));
    const auto before = session.run(train, y, {{x, data}}).item<float>();
    const auto after = session.run(y, {{x, data}}).item<float>();
    std::printf("%s: %g -> %g\n", name.c_str(), static_cast<double>(before),
                static_cast<double>(after));
    // Rows (0, 1) and (2, 3): the mean of their sums is 3, the gradient of w is (1, 2), so the
    // step takes 0.5 * (1 * 1 + 2 * 2) off.
    if (before != 3.0f || after != 0.5f) return 1;
  }
  std::printf("keel %s\n", KEEL_VERSION);
}
