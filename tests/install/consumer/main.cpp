// A project of its own that knows Keel only from its installation.
#include <cstdio>

#include <keel/keel.h>

int main() {
  keel::Graph g;
  auto x = g.input("x", keel::f32, {-1, 2});
  auto w = g.state("w", keel::ones({2, 1}));
  auto y = mean(matmul(x, w)[{keel::_, 0}]);
  auto train = keel::sgd(0.5).minimize(y);

  const auto data = keel::Tensor::of<float>({2, 2}, {0.0f, 1.0f, 2.0f, 3.0f});
  for (const auto& name : keel::backend_names()) {
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
